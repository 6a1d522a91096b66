// Why a process could not start, as one sentence. What only a bug throws stays as it is, and is shown
// with its stack.
import { SettingsError } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { plainText } from '../output/plain-text.ts'

const bugClasses = [TypeError, ReferenceError, RangeError, SyntaxError]

export function explainStartFailure(error: unknown): unknown {
  if (error instanceof CliError || error instanceof SettingsError || error instanceof FleetError) return error
  if (!(error instanceof Error) || bugClasses.some((bug) => error instanceof bug)) return error
  return new CliError(`could not start: ${plainText(error.message)}`, { cause: error })
}
