// The end of a command that did not go well: what is said, and the exit code.
import { CommanderError } from 'commander'
import { SettingsError } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { CliError } from './cli-error.ts'
import { plainText } from './output/plain-text.ts'
import type { Terminal } from './output/terminal.ts'

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError) return error.exitCode
  if (error instanceof SettingsError) return 2
  // Help and version end a command by throwing too, with code 0; every mistake in its use is a 2.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  return 1
}

export function reportError(error: unknown, terminal: Terminal): void {
  // Commander has said it already.
  if (error instanceof CommanderError) return
  const mark = terminal.colours.err ? '\u001b[31merror:\u001b[39m' : 'error:'
  if (error instanceof CliError) {
    terminal.err(`${mark} ${error.message}${error.code === null ? '' : ` (${error.code})`}`)
    if (error.hint !== null) terminal.err(error.hint)
  } else if (error instanceof SettingsError || error instanceof FleetError) {
    terminal.err(`${mark} ${plainText(error.message)}`)
  } else {
    terminal.err(`${mark} this is a bug in muster: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  }
}
