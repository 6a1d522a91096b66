// The settings of controller and worker, loaded when a command needs them: what only talks to a
// controller starts without either.
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
} from '@muster/host'
import { usageError } from '../cli-error.ts'
import type { OptionValues } from '../commands/command.ts'
import { flagsGiven } from './setting-options.ts'
import { dataDirOf } from '../shell.ts'

// The settings of a process: command line, environment, configuration file.

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

/** Of all commands: they share one configuration file. */
export const loadAllSettings = async (): Promise<readonly Settings[]> => [
  await loadControllerSettings(),
  await loadWorkerSettings(),
  upSettings,
  logSettings,
]

export async function loadControllerSettings() {
  const { controllerSettings } = await import('@muster/controller')
  return defineSettings(controllerSettings)
}

/** Whether whoever reaches the bus of a controller with these settings can speak for every node. */
export async function isBusOpen(settings: ControllerSettings): Promise<boolean> {
  const controller = await import('@muster/controller')
  return controller.isBusOpen(settings)
}

export async function loadWorkerSettings() {
  const { workerSettings } = await import('@muster/worker')
  return defineSettings(workerSettings)
}

/** Of the workers that `up` runs: on one machine they are its own. */
export async function loadModelFileSettings() {
  const { modelFileSettings } = await import('@muster/worker')
  return modelFileSettings
}

// How a process logs: on stderr, for people or for machines.

export const logSettings = defineSettings({
  logLevel: choice({ flag: 'log-level', values: logLevels, default: 'info', help: `how much is logged: ${logLevels.join(', ')}` }),
  logFormat: choice({ flag: 'log-format', values: logFormats, default: 'text', help: `how it is written: ${logFormats.join(', ')}` }),
})

// What `muster up` has beyond the settings of its controller.

export const upSettings = defineSettings({
  workers: int({ flag: 'workers', default: 1, min: 0, max: 64, help: 'how many workers to run in this process' }),
})
