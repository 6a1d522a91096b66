// The settings of service commands, from command line, environment and configuration file. The definitions of controller
// and worker are loaded when a command needs them, so that client commands start without either.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ControllerSettings } from '@muster/controller'
import {
  choice,
  defineSettings,
  errorCode,
  type ExplainedSetting,
  explainSettings,
  int,
  logFormats,
  logLevels,
  resolveSettings,
  type Settings,
  type SettingsFile,
  type SettingsOf,
  errorMessage,
} from '@muster/host'
import { usageError } from '../cli-error.ts'
import type { OptionValues } from '../commands/command.ts'
import { flagsGiven } from './setting-options.ts'
import { dataDirOf } from '../shell.ts'

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

/** A file that is named explicitly must exist; the default one may be missing. */
function readConfigFile({ given, dataDir }: { given: unknown; dataDir: string }): SettingsFile | null {
  const isExplicit = typeof given === 'string' && given !== ''
  const path = isExplicit ? given : join(dataDir, 'muster.yaml')
  try {
    return { path, text: readFileSync(path, 'utf8') }
  } catch (error) {
    const code = errorCode(error)
    if (!isExplicit && (code === 'ENOENT' || code === 'ENOTDIR')) return null
    throw usageError(`cannot read the configuration file ${path}: ${errorMessage(error)}`)
  }
}

/** The settings of all commands, which share one configuration file. */
const loadAllSettings = async (): Promise<readonly Settings[]> => [
  await loadControllerSettings(),
  await loadWorkerSettings(),
  upSettings,
  logSettings,
]

export async function loadControllerSettings() {
  const { controllerSettings } = await import('@muster/controller')
  return defineSettings(controllerSettings)
}

/** True when the bus of a controller with these settings needs no credentials. */
export async function isBusOpen(settings: ControllerSettings): Promise<boolean> {
  const controller = await import('@muster/controller')
  return controller.isBusOpen(settings)
}

export async function loadWorkerSettings() {
  const { workerSettings } = await import('@muster/worker')
  return defineSettings(workerSettings)
}

/** The settings that `up` passes to its workers. */
export async function loadModelFileSettings() {
  const { modelFileSettings } = await import('@muster/worker')
  return modelFileSettings
}

export const logSettings = defineSettings({
  logLevel: choice({ flag: 'log-level', values: logLevels, default: 'info', help: `the log level: ${logLevels.join(', ')}` }),
  logFormat: choice({ flag: 'log-format', values: logFormats, default: 'text', help: `the format of the log: ${logFormats.join(', ')}` }),
})

export const upSettings = defineSettings({
  workers: int({ flag: 'workers', default: 1, min: 0, max: 64, help: 'how many workers to run in this process' }),
})
