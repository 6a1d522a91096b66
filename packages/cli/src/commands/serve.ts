// The commands that serve until they are stopped: `up`, `controller`, `worker` and `join`; and `nats-config`. The packages
// of controller and worker are loaded when one of these commands runs.
import { type Command, Option } from 'commander'
import {
  createLog,
  defineSettings,
  describeLocalAiNames,
  environmentName,
  type ExplainedSetting,
  type Log,
  type Setting,
  type Settings,
  type SettingsOf,
} from '@muster/host'
import { usageError } from '../cli-error.ts'
import { createPrinter } from '../output/terminal.ts'
import { logLocalAiNames } from '../serve/localai-names.ts'
import type { Service } from '../serve/run-service.ts'
import { type GivenFlag, givenFlags, neededSetting, settingOption } from '../serve/setting-options.ts'
import {
  loadControllerSettings,
  loadModelFileSettings,
  loadSettings,
  loadWorkerSettings,
  logSettings,
  upSettings,
} from '../serve/settings.ts'
import type { Shell } from '../shell.ts'
import { type CommandDefinition, defineCommand, collectOptions, serviceOptions } from './command.ts'

export const up = (parent: Command, shell: Shell): Command =>
  serviceCommand(parent, shell, {
    name: 'up',
    summary: 'Run everything on this machine: a controller and its workers',
    details:
      'Needs no other service: the database is embedded and the bus is in the process, unless --database-url and --nats-url name others.',
    examples: ['muster up', 'muster up --workers 2 --port 9000', 'muster up --host 0.0.0.0 --nats-url nats://10.0.0.1:4222'],
    settings: async () => defineSettings({ ...(await loadControllerSettings()), ...upSettings, ...(await loadModelFileSettings()) }),
    start: async ({ shell: { env, version, clock, terminal }, ...start }) => {
      const { startUp } = await import('../serve/start-up.ts')
      return startUp({ ...start, firstModels: ['tiny'], env, version, clock, print: terminal.out, commands: terminal.commands })
    },
  })

export const controller = (parent: Command, shell: Shell): Command =>
  serviceCommand(parent, shell, {
    name: 'controller',
    summary: 'Run one controller of a cluster, with your own PostgreSQL and NATS',
    examples: ['MUSTER_DATABASE_URL=postgres://muster@db/muster muster controller --nats-url nats://bus:4222 --host 0.0.0.0'],
    settings: loadControllerSettings,
    needed: ['database-url', 'nats-url'],
    start: async ({ shell: { env, version, clock, terminal }, settings, ...start }) => {
      if (settings.databaseUrl === undefined)
        throw usageError('--database-url is missing (or MUSTER_DATABASE_URL)', 'on one machine, `muster up` runs its own database')
      if (settings.natsUrl === '')
        throw usageError('--nats-url is missing (or MUSTER_NATS_URL)', 'on one machine, `muster up` runs its own bus')
      const { startUp } = await import('../serve/start-up.ts')
      return startUp({
        ...start,
        settings: { ...settings, workers: 0 },
        env,
        version,
        clock,
        print: terminal.out,
        commands: terminal.commands,
      })
    },
  })

type Definition = ServiceCommandDefinition<Awaited<ReturnType<typeof loadWorkerSettings>>>

const shared: Pick<Definition, 'settings' | 'start'> = {
  settings: loadWorkerSettings,
  start: async ({ shell: { env, clock }, ...start }) => {
    const { startWorkerService } = await import('../serve/start-workers.ts')
    return startWorkerService({ ...start, env, clock })
  },
}
const details =
  'The token is needed only the first time. An administrator then approves the node with `muster nodes approve`. URL and token are stored: the next time `muster worker` alone is enough.'

export const worker = (parent: Command, shell: Shell): Command =>
  serviceCommand(parent, shell, {
    ...shared,
    name: 'worker',
    summary: 'Run a worker on this machine, and join a cluster with it',
    details,
    examples: ['muster worker --join https://muster.example --token T --labels rack=b2', 'muster worker'],
  })

export const join = (parent: Command, shell: Shell): Command =>
  serviceCommand(parent, shell, {
    ...shared,
    name: 'join',
    summary: 'Join a cluster with this machine (the same as worker --join URL)',
    details,
    arguments: [['<url>', 'the URL of a controller']],
    argumentFlags: ['join'],
    examples: ['muster join https://muster.example --token T'],
  })

export function natsConfig(parent: Command, shell: Shell): Command {
  const command = defineCommand(parent, {
    name: 'nats-config',
    summary: 'Make the configuration of a NATS server that only approved nodes can use',
    details:
      'Writes nats.conf for the server, and nats-account.seed, with which controllers give each approved node a token for its own subjects. nats.conf holds no secret: the user that runs nats-server must be able to read it (Debian: nats). The seed is secret: only the users that run the controllers may read it. Give it to every controller of the cluster.',
    options: [
      new Option('--out <dir>', 'where to write them').default('.'),
      new Option('-o, --output <format>', 'json prints the paths of the files').choices(['text', 'json']),
    ],
    examples: [
      'muster nats-config --out /etc/muster',
      'nats-server -c /etc/muster/nats.conf',
      'MUSTER_NATS_ACCOUNT_SEED_FILE=/etc/muster/nats-account.seed muster controller …',
    ],
  })
  return command.action(async () => {
    const { writeNatsConfig } = await import('../serve/write-nats-config.ts')
    const values = collectOptions(command)
    const files = await writeNatsConfig(String(values['out']))
    const print = createPrinter(shell.terminal, values['output'] === 'json' ? 'json' : 'text')
    print.result(files, () =>
      [
        `Server   nats-server -c ${files.config}`,
        `Seed     MUSTER_NATS_ACCOUNT_SEED_FILE=${files.seed} for every controller (secret: it allows to act as any node)`,
      ].join('\n'),
    )
  })
}

interface ServiceStart<S extends Settings> {
  readonly shell: Shell
  readonly settings: SettingsOf<S>
  /** For people: the settings, those of the log included, and their sources. */
  readonly explained: readonly ExplainedSetting[]
  /** The flags of the command line. */
  readonly given: readonly GivenFlag[]
  readonly dataDir: string
  readonly log: Log
  readonly signal: AbortSignal
}

interface ServiceCommandDefinition<S extends Settings> extends CommandDefinition {
  settings(): Promise<S>
  /** Flags of settings that this command requires. */
  readonly needed?: readonly string[]
  /** Settings that are arguments instead of flags, in their order: `join URL`. */
  readonly argumentFlags?: readonly string[]
  start(start: ServiceStart<S>): Promise<Service>
}

function serviceCommand<S extends Settings>(parent: Command, shell: Shell, definition: ServiceCommandDefinition<S>): Command {
  const command = defineCommand(parent, { ...definition, options: serviceOptions() })
  const { argumentFlags = [], needed = [] } = definition
  command.prepare = async () => {
    const settings = [...Object.values(await definition.settings()), ...Object.values(logSettings)]
    for (const setting of settings.filter(({ flag }) => !argumentFlags.includes(flag)))
      command.addOption(settingOption(needed.includes(setting.flag) ? neededSetting(setting) : setting))
    command.addHelpText('after', secretsHelp(command, settings))
  }
  return command.action(async () => {
    shell.ignoreClosedOutput()
    const values = { ...collectOptions(command), ...Object.fromEntries(argumentFlags.map((flag, at) => [flag, command.args[at]])) }
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

/** Lists the settings that are never flags. */
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
  const own = await definition.settings()
  const { settings: logging, explained: explainedLog } = await loadSettings(logSettings, { values, env })
  const { settings, dataDir, explained } = await loadSettings(own, { values, env })
  const log = createLog({ level: logging.logLevel, format: logging.logFormat, stream: process.stderr })
  logLocalAiNames(describeLocalAiNames(env, [...explained, ...explainedLog]), log)
  return { settings, explained: [...explained, ...explainedLog], given: givenFlags({ ...own, ...logSettings }, values), dataDir, log }
}
