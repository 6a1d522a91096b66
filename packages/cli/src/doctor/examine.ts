// All that `muster doctor` looks at, with the settings it would start with.
import { resolveSettings } from '@muster/host'
import type { OptionValues } from '../commands/command.ts'
import { isBusOpen, loadControllerSettings, type LoadOptions, loadSettings } from '../serve/settings.ts'
import { dataDirOf, type Shell } from '../shell.ts'
import { adminKeyCheck, clockSkewCheck, controllerCheck, modelsCheck } from './controller-checks.ts'
import { busCheck } from './bus-check.ts'
import { dataDirCheck, diskSpaceCheck, nodeVersionCheck, portCheck, settingsCheck } from './machine-checks.ts'
import { databaseCheck } from './database-check.ts'
import { resolveKnownTarget } from './controller-report.ts'
import { type Check, type Finding, runChecks } from './checks.ts'

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
