// Defines commands: name, one line of help, arguments, options, examples; and the frame of every command that talks to a
// controller, which resolves server and key and passes an API client and a printer.
import { Command, type HelpContext, Option, type ParseOptionsResult } from 'commander'
import { usageError } from '../cli-error.ts'
import { type ApiClient, createApiClient } from '../client/api-client.ts'
import { resolveTarget } from '../client/target.ts'
import { createPrinter, type Printer } from '../output/terminal.ts'
import { dataDirOf, type Shell } from '../shell.ts'

/** A group without a subcommand shows its help as a result, not as an error. */
export class HelpfulCommand extends Command {
  /** Called for the chosen command before its arguments are parsed: adds options whose definitions are costly to load. */
  prepare: () => Promise<void> = async () => undefined

  override createCommand(name?: string): Command {
    return new HelpfulCommand(name)
  }

  /** `--wait` takes the next word as its value only if that begins with a digit: `--wait llama` has none. */
  override parseOptions(argv: string[]): ParseOptionsResult {
    const hasWait = this.options.some((option) => option.long === '--wait')
    const isAlone = (at: number): boolean => argv[at] === '--wait' && !/^\d/.test(argv[at + 1] ?? '')
    return super.parseOptions(hasWait ? argv.map((word, at) => (isAlone(at) ? '--wait=' : word)) : argv)
  }

  override help(_context?: HelpContext | ((text: string) => string)): never {
    super.help()
    throw new Error('unreachable: help ends the command')
  }
}

export interface CommandDefinition {
  readonly name: string
  readonly summary: string
  /** Shown in the command's own help, after the summary. */
  readonly details?: string
  /** Commander's flags (`<node>`, `[label...]`) and their meaning. */
  readonly arguments?: ReadonlyArray<readonly [flags: string, meaning: string]>
  readonly options?: readonly Option[]
  readonly examples?: readonly string[]
}

export function defineCommand(parent: Command, definition: CommandDefinition): HelpfulCommand {
  const command = new HelpfulCommand(definition.name).copyInheritedSettings(parent).summary(definition.summary)
  parent.addCommand(command)
  command.description([`${definition.summary}.`, ...(definition.details === undefined ? [] : ['', definition.details])].join('\n'))
  for (const [flags, meaning] of definition.arguments ?? []) command.argument(flags, meaning)
  for (const option of definition.options ?? []) command.addOption(option)
  if (definition.examples !== undefined)
    command.addHelpText('after', `\nExamples:\n${definition.examples.map((line) => `  $ ${line}`).join('\n')}`)
  return command
}

/** For repeatable options. */
export const collect = (value: string, before: unknown): string[] => [...(Array.isArray(before) ? before.map(String) : []), value]

export function defineGroup(parent: Command, definition: Pick<CommandDefinition, 'name' | 'summary'>): Command {
  return addSharedOptions(parent.command(definition.name).summary(definition.summary).description(`${definition.summary}.`))
}

/** Accepted before and after the name of a subcommand; shown only in the help of the last one. */
export function addSharedOptions(command: Command, options: readonly Option[] = [...clientOptions(), configOption()]): Command {
  for (const option of options) command.addOption(option.hideHelp())
  return command
}

const dataDirOption = (): Option =>
  new Option(
    '--data-dir <dir>',
    'where Muster keeps its files (default: $MUSTER_DATA_DIR, else /var/lib/muster as root, else ~/.local/share/muster)',
  )

export const configOption = (): Option => new Option('--config <file>', 'the configuration file (default: <data-dir>/muster.yaml)')

export const serviceOptions = (): Option[] => [dataDirOption(), configOption()]

export const clientOptions = (): Option[] => [
  new Option('-o, --output <format>', 'json prints the answer of the API, and nothing else').choices(['text', 'json']),
  new Option('--url <url>', 'the controller (default: $MUSTER_URL, else the URL in <data-dir>/endpoint)'),
  dataDirOption(),
]

export type OptionValues = Readonly<Record<string, unknown>>

/** The options of this command and of its parents; the nearest wins. */
export function collectOptions(command: Command): OptionValues {
  const outer = command.parent === null ? {} : collectOptions(command.parent)
  const own = Object.entries(command.opts()).filter(([, value]) => value !== undefined)
  return { ...outer, ...Object.fromEntries(own) }
}

/** Reads options by their type; one of another type counts as not given. */
export function createOptionReader(options: OptionValues) {
  return {
    option: (name: string): string | undefined => (typeof options[name] === 'string' ? options[name] : undefined),
    flag: (name: string): boolean => options[name] === true,
    /** `--no-<name>` was given. */
    isOff: (name: string): boolean => options[name] === false,
    /** The values of a repeatable option. */
    list: (name: string): readonly string[] => (Array.isArray(options[name]) ? options[name].map(String) : []),
  }
}

export interface ClientCall extends ReturnType<typeof createOptionReader> {
  readonly shell: Shell
  readonly api: ApiClient
  readonly print: Printer
  /** The arguments, in their order. */
  readonly words: readonly string[]
}

export interface ClientCommand extends CommandDefinition {
  readonly run: (call: ClientCall) => Promise<void>
}

export function addCommands(group: Command, shell: Shell, commands: readonly ClientCommand[]): void {
  for (const command of commands) addClientCommand(group, shell, command)
}

export function addClientCommand(parent: Command, shell: Shell, definition: ClientCommand): Command {
  const command = defineCommand(parent, { ...definition, options: [...(definition.options ?? []), ...clientOptions()] })
  // Accepted everywhere, but client commands use no setting of the file.
  command.addOption(configOption().hideHelp())
  return command.action(async () => {
    const options = collectOptions(command)
    const read = createOptionReader(options)
    const dataDir = dataDirOf(options['dataDir'], shell.env)
    const target = resolveTarget({ url: read.option('url'), dataDir, env: shell.env })
    if (target.isKeyWithheld)
      throw usageError(
        `${target.url.origin} (${target.urlFrom}) is not the controller of ${dataDir}, so the key in ${target.keyFrom} is not sent there`,
        'give a key of that cluster with MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE',
      )
    await definition.run({
      shell,
      api: createApiClient({ target, userAgent: `muster/${shell.version}`, clock: shell.clock }),
      print: createPrinter(shell.terminal, read.option('output') === 'json' ? 'json' : 'text'),
      words: command.args,
      ...read,
    })
  })
}
