// All checks of `muster doctor`, with the settings that a start would use.
import { describeLocalAiNames, type ExplainedSetting, resolveSettings } from '@muster/host'
import type { OptionValues } from '../commands/command.ts'
import { localAiChecks } from '../serve/localai-names.ts'
import { isBusOpen, loadControllerSettings, type LoadOptions, loadSettings, loadWorkerSettings, logSettings } from '../serve/settings.ts'
import { dataDirOf, type Shell } from '../shell.ts'
import { adminKeyCheck, clockSkewCheck, controllerCheck, modelsCheck } from './controller-checks.ts'
import { busCheck } from './bus-check.ts'
import { dataDirCheck, diskSpaceCheck, nodeVersionCheck, portCheck, listenAddressIn, settingsCheck } from './machine-checks.ts'
import { databaseCheck } from './database-check.ts'
import { resolveKnownTarget } from './controller-report.ts'
import { type Check, type Finding, runChecks } from './checks.ts'

/** Longer than any request of a check (4 s), so that their own, better messages come first. */
const timeoutMs = 6000

export async function examine(values: OptionValues, shell: Shell): Promise<Finding[]> {
  const { machineChecks, clusterChecks } = await checksFor(values, shell)
  const limits = { clock: shell.clock, timeoutMs }
  // One after the other: the check of the port listens there, and would answer in place of a controller.
  return [...(await runChecks(machineChecks, limits)), ...(await runChecks(clusterChecks, limits))]
}

async function checksFor(values: OptionValues, shell: Shell): Promise<{ machineChecks: Check[]; clusterChecks: Check[] }> {
  const { env, clock } = shell
  const dataDir = dataDirOf(values['dataDir'], env)
  const { settings, given, problem } = await readSettings({ values, env })
  const known = resolveKnownTarget({ url: typeof values['url'] === 'string' ? values['url'] : undefined, dataDir, env })
  // The address of the last start here, which may have had flags that this command does not have.
  const last = known.target === null || known.isExplicit ? null : listenAddressIn(known.target.url)
  const address = { ...settings, ...last, ...given }
  const machineChecks = [nodeVersionCheck(), settingsCheck(problem), dataDirCheck(dataDir), diskSpaceCheck(dataDir), portCheck(address)]
  const clusterChecks = [
    controllerCheck(known, shell.version),
    databaseCheck({ known, databaseUrl: settings.databaseUrl?.reveal(), dataDir }),
    busCheck({ known, natsUrl: settings.natsUrl === '' ? undefined : settings.natsUrl, isOpen: await isBusOpen(settings) }),
    clockSkewCheck(known, clock),
    adminKeyCheck(known),
    modelsCheck(known),
  ]
  const hasLocalAi = describeLocalAiNames(env, []).length > 0
  const uses = hasLocalAi ? describeLocalAiNames(env, await explainAll({ values, env })) : []
  return { machineChecks: [...machineChecks, ...localAiChecks(uses)], clusterChecks }
}

/** A bad setting is a finding; the other checks then use the defaults. */
async function readSettings(options: LoadOptions) {
  const definitions = await loadControllerSettings()
  try {
    const { settings, explained } = await loadSettings(definitions, options)
    const isGiven = (flag: string): boolean => explained.some((each) => each.flag === flag && each.from !== 'default')
    const given = { ...(isGiven('host') ? { host: settings.host } : {}), ...(isGiven('port') ? { port: settings.port } : {}) }
    return { settings, given, problem: null }
  } catch (problem) {
    if (!(problem instanceof Error)) throw problem
    return { settings: resolveSettings(definitions, { flags: {}, env: {} }), given: {}, problem }
  }
}

/** The settings of every command, because the environment of a machine is often shared by its services. */
async function explainAll(options: LoadOptions): Promise<ExplainedSetting[]> {
  const explained: ExplainedSetting[] = []
  for (const definitions of [await loadControllerSettings(), await loadWorkerSettings(), logSettings]) {
    const loaded = await loadSettings(definitions, options).catch((): null => null)
    explained.push(...(loaded?.explained ?? []))
  }
  return explained
}
