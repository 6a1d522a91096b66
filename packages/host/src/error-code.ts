/** The `code` by which Node, NATS and PostgreSQL distinguish errors (`ENOENT`, `23505`); undefined when there is none. */
export function errorCode(error: unknown): string | number | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' || typeof error.code === 'number' ? error.code : undefined
}

/** For `catch`: this value when a file or directory does not exist. Any other error is thrown. */
export const ifMissing =
  <T>(value: T) =>
  (error: unknown): T => {
    if (errorCode(error) === 'ENOENT') return value
    throw error
  }

/** The message of anything that was thrown. */
export const errorMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error))
