// A word of the command line that has to name a model.
import { ModelName } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { plainText } from '../output/plain-text.ts'

export const modelArgument = ['<name>', 'of the model, as `muster models ls` shows it'] as const

export function parseModelName(word: string | undefined): ModelName {
  const parsed = ModelName.safeParse(word)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(plainText(word ?? ''))} is none: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}
