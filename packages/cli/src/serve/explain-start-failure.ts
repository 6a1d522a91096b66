// Why a process could not start, as one sentence. What only a bug can throw stays as it is, and is
// shown with its stack.
import { errorCode, SettingsError } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { plainText } from '../output/plain-text.ts'

const bugs = [TypeError, ReferenceError, RangeError, SyntaxError]

export function explainStartFailure(error: unknown): unknown {
  if (error instanceof CliError || error instanceof SettingsError || error instanceof FleetError) return error
  if (!(error instanceof Error) || bugs.some((bug) => error instanceof bug)) return error
  const say = (message: string): CliError => new CliError(message, { cause: error })
  const at = 'address' in error && 'port' in error ? `${String(error.address)}:${String(error.port)}` : 'the address'
  switch (errorCode(error)) {
    case 'EADDRINUSE':
      return say(`${at} is in use by another program: stop that one, or choose another port with --port`)
    case 'EADDRNOTAVAIL':
      return say(`${at} is not an address of this machine: give one that is with --host`)
    case 'EACCES':
      return say(`not allowed: ${plainText(error.message)}`)
    default:
      return say(plainText(error.message))
  }
}
