// A log that tests can read.
import type { Fields, Log } from '@muster/host'

export interface RecordingLog extends Log {
  readonly lines: { readonly level: string; readonly message: string; readonly fields: Fields }[]
}

export function recordingLog(): RecordingLog {
  const lines: RecordingLog['lines'] = []
  const at =
    (level: string, bound: Fields) =>
    (message: string, fields: Fields = {}): void =>
      void lines.push({ level, message, fields: { ...bound, ...fields } })
  const withFields = (bound: Fields): RecordingLog => ({
    lines,
    debug: at('debug', bound),
    info: at('info', bound),
    warn: at('warn', bound),
    error: at('error', bound),
    child: (fields) => withFields({ ...bound, ...fields }),
  })
  return withFields({})
}
