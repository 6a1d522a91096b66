// The frame of the commands that serve until they are stopped: reads the settings, opens the log on
// stderr, and runs the service. What they need is loaded when one of them is chosen.
import type { Command } from 'commander'
import { createLog, environmentName, type ExplainedSetting, type Log, type Setting, type Settings, type SettingsOf } from '@muster/host'
import type { Service } from '../serve/run-service.ts'
import type { GivenFlag } from '../settings/given-flags.ts'
import type { Shell } from '../shell.ts'
import { type CommandDefinition, defineCommand, givenOptions, serviceOptions } from './define-command.ts'

export interface ServiceStart<S extends Settings> {
  readonly shell: Shell
  readonly settings: SettingsOf<S>
  /** The same for people, with those about logs. */
  readonly explained: readonly ExplainedSetting[]
  /** On the command line. */
  readonly given: readonly GivenFlag[]
  readonly dataDir: string
  readonly log: Log
  readonly signal: AbortSignal
}

export interface ServiceCommandDefinition<S extends Settings> extends CommandDefinition {
  settings(): Promise<S>
  /** Flags of settings that have a default elsewhere, and none here. */
  readonly needed?: readonly string[]
  /** Settings that are given as arguments instead of flags, in their order: `join URL`. */
  readonly argumentFlags?: readonly string[]
  start(start: ServiceStart<S>): Promise<Service>
}

export function serviceCommand<S extends Settings>(parent: Command, shell: Shell, definition: ServiceCommandDefinition<S>): Command {
  const command = defineCommand(parent, { ...definition, options: serviceOptions() })
  const { argumentFlags = [], needed = [] } = definition
  command.prepare = async () => {
    const [{ neededSetting, settingOption }, { logSettings }] = await Promise.all([
      import('../settings/setting-options.ts'),
      import('../settings/log-settings.ts'),
    ])
    const settings = [...Object.values(await definition.settings()), ...Object.values(logSettings)]
    for (const setting of settings.filter(({ flag }) => !argumentFlags.includes(flag)))
      command.addOption(settingOption(needed.includes(setting.flag) ? neededSetting(setting) : setting))
    command.addHelpText('after', secretsHelp(command, settings))
  }
  return command.action(async () => {
    shell.outliveReader()
    const values = { ...givenOptions(command), ...Object.fromEntries(argumentFlags.map((flag, at) => [flag, command.args[at]])) }
    const { log, ...prepared } = await prepareService(definition, { shell, values })
    const { runService } = await import('../serve/run-service.ts')
    await runService({
      log,
      clock: shell.clock,
      exit: (code) => process.exit(code),
      start: (signal) => definition.start({ shell, ...prepared, log, signal }),
    })
  })
}

/** Of what can't be given as a flag, and so is not among the options. */
function secretsHelp(command: Command, settings: readonly Setting<unknown>[]): string {
  const rows = settings.filter(({ allowFlag }) => !allowFlag).map(({ flag, help }) => [environmentName(flag), help] as const)
  if (rows.length === 0) return ''
  const helper = command.createHelp()
  const width = Math.max(...rows.map(([name]) => name.length))
  const lines = rows.map(([name, help]) => helper.formatItem(name, width, help, helper))
  return ['', 'From the environment, never as a flag (NAME_FILE names a file that holds it):', ...lines].join('\n')
}

async function prepareService<S extends Settings>(
  definition: ServiceCommandDefinition<S>,
  { shell: { env }, values }: { shell: Shell; values: Readonly<Record<string, unknown>> },
) {
  const [{ loadSettings }, { logSettings }, { givenFlags }] = await Promise.all([
    import('../settings/load-settings.ts'),
    import('../settings/log-settings.ts'),
    import('../settings/given-flags.ts'),
  ])
  const own = await definition.settings()
  const { settings: logging, explained: ofLogs } = await loadSettings(logSettings, { values, env })
  const { settings, dataDir, explained } = await loadSettings(own, { values, env })
  const log = createLog({ level: logging.logLevel, format: logging.logFormat, stream: process.stderr })
  return { settings, explained: [...explained, ...ofLogs], given: givenFlags({ ...own, ...logSettings }, values), dataDir, log }
}
