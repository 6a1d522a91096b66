// A word of the command line that has to name a backend.
import { BackendName } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { plainText } from '../output/plain-text.ts'

export function parseBackendName(word: string | undefined): BackendName {
  const parsed = BackendName.safeParse(word)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(plainText(word ?? ''))} is none: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}
