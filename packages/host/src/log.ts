// Logs: a constant message and fields.
export type Fields = Readonly<Record<string, unknown>>

export interface Log {
  debug(message: string, fields?: Fields): void
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  error(message: string, fields?: Fields): void
  child(fields: Fields): Log
}
