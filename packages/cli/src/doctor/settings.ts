// Whether flags, environment and configuration file can be used as they are.
import { SettingsError } from '@muster/host'
import { CliError } from '../cli-error.ts'
import { type Check, fail, ok, type Verdict } from './verdict.ts'

export function judgeSettings(problem: Error | null): Verdict {
  if (problem === null) return ok('flags, environment and configuration file are fine')
  if (problem instanceof SettingsError || problem instanceof CliError)
    return fail(problem.message, 'correct it: nothing starts with a bad setting')
  throw problem
}

export const settingsCheck = (problem: Error | null): Check => ({ name: 'settings', run: async () => judgeSettings(problem) })
