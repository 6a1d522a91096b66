// Shows which environment variables of LocalAI a start uses, and which have no effect: in the log of the start, and in
// `muster doctor`.
import type { LocalAiUse, Log } from '@muster/host'
import { type Check, ok, type Verdict, warn } from '../doctor/checks.ts'

/** One line per used name, one line for all others. Values are never logged. */
export function logLocalAiNames(uses: readonly LocalAiUse[], log: Pick<Log, 'info' | 'warn'>): void {
  for (const { name, flags } of uses.filter(({ outcome }) => outcome === 'used'))
    log.info('setting read from a LocalAI variable', { name, settings: flags.map((flag) => `--${flag}`) })
  const named = (...outcomes: LocalAiUse['outcome'][]): string[] =>
    uses.filter(({ outcome }) => outcomes.includes(outcome)).map(({ name }) => name)
  const others = {
    overridden: named('overridden'),
    other_command: named('elsewhere'),
    no_effect: named('no_effect', 'unknown'),
    not_supported: named('refused'),
  }
  const shown = Object.fromEntries(Object.entries(others).filter(([, names]) => names.length > 0))
  if (Object.keys(shown).length === 0) return
  const write = others.not_supported.length > 0 ? log.warn : log.info
  write('LocalAI variables have no effect here; "muster doctor" explains each', shown)
}

/** One check per name that is set; none on a machine without LocalAI. */
export const localAiChecks = (uses: readonly LocalAiUse[]): Check[] =>
  uses.map((use) => ({ name: 'localai', run: async () => judgeLocalAiName(use) }))

export function judgeLocalAiName({ name, outcome, flags, message }: LocalAiUse): Verdict {
  const settings = flags.map((flag) => `--${flag}`).join(' and ')
  switch (outcome) {
    case 'used':
      return ok(`${name} is read as ${settings}: ${message}`)
    case 'elsewhere':
      return ok(`${name} is read by other commands, as ${settings}: ${message}`)
    case 'overridden':
      return ok(`${name} has no effect: another source sets ${settings}`)
    case 'no_effect':
    case 'unknown':
      return ok(`${name} has no effect: ${message}`)
    case 'refused':
      return warn(`${name} is not supported`, message)
  }
}
