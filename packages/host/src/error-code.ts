/** The `code` by which Node, NATS and PostgreSQL tell errors apart (`ENOENT`, `23505`); undefined when there is none. */
export function errorCode(error: unknown): string | number | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' || typeof error.code === 'number' ? error.code : undefined
}
