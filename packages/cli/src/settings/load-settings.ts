// The settings of a process: command line, environment, configuration file.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  errorCode,
  explainSettings,
  resolveSettings,
  type ExplainedSetting,
  type Settings,
  type SettingsFile,
  type SettingsOf,
} from '@muster/host'
import { usageError } from '../cli-error.ts'
import type { OptionValues } from '../commands/define-command.ts'
import { dataDirOf } from '../data-dir-option.ts'
import { loadAllSettings } from '../serve/load-definitions.ts'
import { flagsGiven } from './setting-options.ts'

export interface LoadOptions {
  readonly values: OptionValues
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface LoadedSettings<S extends Settings> {
  readonly dataDir: string
  readonly settings: SettingsOf<S>
  readonly explained: readonly ExplainedSetting[]
}

export async function loadSettings<S extends Settings>(definitions: S, { values, env }: LoadOptions): Promise<LoadedSettings<S>> {
  const dataDir = dataDirOf(values['dataDir'], env)
  const file = readConfigFile({ given: values['config'] ?? env['MUSTER_CONFIG'], dataDir })
  const alsoKnown = file === null ? [] : (await loadAllSettings()).flatMap((each) => Object.values(each).map((setting) => setting.flag))
  const sources = { flags: flagsGiven(definitions, values), env, ...(file === null ? {} : { file: { ...file, alsoKnown } }) }
  return { dataDir, settings: resolveSettings(definitions, sources), explained: explainSettings(definitions, sources) }
}

/** A file that was asked for must be there; the usual one may be missing. */
function readConfigFile({ given, dataDir }: { given: unknown; dataDir: string }): SettingsFile | null {
  const asked = typeof given === 'string' && given !== ''
  const path = asked ? given : join(dataDir, 'muster.yaml')
  try {
    return { path, text: readFileSync(path, 'utf8') }
  } catch (error) {
    const code = errorCode(error)
    if (!asked && (code === 'ENOENT' || code === 'ENOTDIR')) return null
    throw usageError(`can't read the configuration file ${path}: ${error instanceof Error ? error.message : String(error)}`)
  }
}
