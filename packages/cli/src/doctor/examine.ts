// All that `muster doctor` looks at, with the settings it would start with.
import { resolveSettings } from '@muster/host'
import type { OptionValues } from '../commands/define-command.ts'
import { isBusOpen, loadControllerSettings } from '../serve/load-definitions.ts'
import { dataDirOf } from '../data-dir-option.ts'
import { loadSettings, type LoadOptions } from '../settings/load-settings.ts'
import type { Shell } from '../shell.ts'
import { adminKeyCheck } from './admin-key.ts'
import { busCheck } from './bus.ts'
import { clockSkewCheck } from './clock-skew.ts'
import { controllerCheck } from './controller.ts'
import { dataDirCheck } from './data-dir.ts'
import { databaseCheck } from './database.ts'
import { diskSpaceCheck } from './disk-space.ts'
import { resolveKnownTarget } from './known-target.ts'
import { modelsCheck } from './models.ts'
import { nodeVersionCheck } from './node-version.ts'
import { portCheck } from './port.ts'
import { type Finding, runChecks } from './run-checks.ts'
import { settingsCheck } from './settings.ts'
import type { Check } from './verdict.ts'

/** Longer than any single question a check asks (4 s), so that their own, better sentences come first. */
const timeoutMs = 6000

export async function examine(values: OptionValues, shell: Shell): Promise<Finding[]> {
  const { ofMachine, ofCluster } = await checksFor(values, shell)
  const limits = { clock: shell.clock, timeoutMs }
  // One after the other: while the port is tried, who asks there for a controller would meet ourselves.
  return [...(await runChecks(ofMachine, limits)), ...(await runChecks(ofCluster, limits))]
}

async function checksFor(values: OptionValues, shell: Shell): Promise<{ ofMachine: Check[]; ofCluster: Check[] }> {
  const { env, clock } = shell
  const dataDir = dataDirOf(values['dataDir'], env)
  const { settings, problem } = await readSettings({ values, env })
  const known = resolveKnownTarget({ url: typeof values['url'] === 'string' ? values['url'] : undefined, dataDir, env })
  const ofMachine = [nodeVersionCheck(), settingsCheck(problem), dataDirCheck(dataDir), diskSpaceCheck(dataDir), portCheck(settings)]
  const ofCluster = [
    controllerCheck(known, shell.version),
    databaseCheck({ known, databaseUrl: settings.databaseUrl?.reveal(), dataDir }),
    busCheck({ known, natsUrl: settings.natsUrl === '' ? undefined : settings.natsUrl, isOpen: await isBusOpen(settings) }),
    clockSkewCheck(known, clock),
    adminKeyCheck(known),
    modelsCheck(known),
  ]
  return { ofMachine, ofCluster }
}

/** A bad setting is a finding; the other checks then go by the defaults. */
async function readSettings(options: LoadOptions) {
  const definitions = await loadControllerSettings()
  try {
    return { settings: (await loadSettings(definitions, options)).settings, problem: null }
  } catch (problem) {
    if (!(problem instanceof Error)) throw problem
    return { settings: resolveSettings(definitions, { flags: {}, env: {} }), problem }
  }
}
