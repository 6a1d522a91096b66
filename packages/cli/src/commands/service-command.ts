// The frame of the commands that serve until they are stopped: reads the settings, opens the log on
// stderr, and runs the service. What they need is loaded when one of them is chosen.
import type { Command } from 'commander'
import { createLog, type Log, type Settings, type SettingsOf } from '@muster/host'
import type { Service } from '../serve/run-service.ts'
import type { GivenFlag } from '../settings/given-flags.ts'
import type { Shell } from '../shell.ts'
import { type CommandDefinition, defineCommand, givenOptions, placeOptions } from './define-command.ts'

export interface ServiceStart<S extends Settings> {
  readonly shell: Shell
  readonly settings: SettingsOf<S>
  /** On the command line. */
  readonly given: readonly GivenFlag[]
  readonly dataDir: string
  readonly log: Log
  readonly signal: AbortSignal
}

export interface ServiceCommandDefinition<S extends Settings> extends CommandDefinition {
  settings(): Promise<S>
  /** Settings that are given as arguments instead of flags, in their order: `join URL`. */
  readonly argumentFlags?: readonly string[]
  start(start: ServiceStart<S>): Promise<Service>
}

export function serviceCommand<S extends Settings>(parent: Command, shell: Shell, definition: ServiceCommandDefinition<S>): Command {
  const command = defineCommand(parent, { ...definition, options: placeOptions() })
  const { argumentFlags = [] } = definition
  command.prepare = async () => {
    const [{ settingOption }, { logSettings }] = await Promise.all([
      import('../settings/setting-options.ts'),
      import('../settings/log-settings.ts'),
    ])
    const settings = [...Object.values(await definition.settings()), ...Object.values(logSettings)]
    for (const setting of settings) if (!argumentFlags.includes(setting.flag)) command.addOption(settingOption(setting))
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
  const { settings: logging } = await loadSettings(logSettings, { values, env })
  const { settings, dataDir } = await loadSettings(own, { values, env })
  const log = createLog({ level: logging.logLevel, format: logging.logFormat, stream: process.stderr })
  return { settings, given: givenFlags({ ...own, ...logSettings }, values), dataDir, log }
}
