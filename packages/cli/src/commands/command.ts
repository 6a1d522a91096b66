// How a command of the tree is defined: name, one line of help, arguments, options, examples.
import { Command, type HelpContext, Option, type ParseOptionsResult } from 'commander'
import { usageError } from '../cli-error.ts'
import { type ApiClient, createApiClient } from '../client/api-client.ts'
import { resolveTarget } from '../client/target.ts'
import { createPrinter, type Printer } from '../output/terminal.ts'
import { dataDirOf, type Shell } from '../shell.ts'

/** A group that is called without a subcommand shows its help as an answer, not as an error. */
export class HelpfulCommand extends Command {
  /** Called once the command is chosen, before its arguments are read: adds options whose definitions are costly to load. */
  prepare: () => Promise<void> = async () => undefined

  override createCommand(name?: string): Command {
    return new HelpfulCommand(name)
  }

  /** An option that may go without its value takes the next word only if that can be one: in `--wait llama` it can't. */
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
  /** More than the one line, where it helps; shown in the command's own help. */
  readonly details?: string
  /** Flags as commander reads them (`<node>`, `[label...]`) and what they mean. */
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

/** For options that may be given several times. */
export const collect = (value: string, before: unknown): string[] => [...(Array.isArray(before) ? before.map(String) : []), value]

export function defineGroup(parent: Command, definition: Pick<CommandDefinition, 'name' | 'summary'>): Command {
  return addSharedOptions(parent.command(definition.name).summary(definition.summary).description(`${definition.summary}.`))
}

/** Understood before and after the name of a subcommand; shown only in the help of the last one. */
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
  new Option('-o, --output <format>', 'json prints what the API answered, and nothing else').choices(['text', 'json']),
  new Option('--url <url>', 'the controller (default: $MUSTER_URL, else what <data-dir>/endpoint names)'),
  dataDirOption(),
]

export type OptionValues = Readonly<Record<string, unknown>>

/** What was given for this command, or before its name; the nearest wins. */
export function givenOptions(command: Command): OptionValues {
  const outer = command.parent === null ? {} : givenOptions(command.parent)
  const own = Object.entries(command.opts()).filter(([, value]) => value !== undefined)
  return { ...outer, ...Object.fromEntries(own) }
}

// The frame of every command that talks to a controller: finds the server and the key, gives the
// command a client and a printer.

export interface ClientCall {
  readonly shell: Shell
  readonly api: ApiClient
  readonly print: Printer
  /** The arguments that are not options, in their order. */
  readonly words: readonly string[]
  option(name: string): string | undefined
  flag(name: string): boolean
  /** `--no-<name>` was given. */
  isOff(name: string): boolean
  /** Every value of an option that may be repeated. */
  list(name: string): readonly string[]
}

interface ClientCommandDefinition extends CommandDefinition {
  run(call: ClientCall): Promise<void>
}

export function clientCommand(parent: Command, shell: Shell, definition: ClientCommandDefinition): Command {
  const command = defineCommand(parent, { ...definition, options: [...(definition.options ?? []), ...clientOptions()] })
  // Every command takes it; but no setting in the file concerns one that only talks to a controller.
  command.addOption(configOption().hideHelp())
  return command.action(async () => {
    const options = givenOptions(command)
    const text = (name: string): string | undefined => {
      const value = options[name]
      return typeof value === 'string' ? value : undefined
    }
    const dataDir = dataDirOf(options['dataDir'], shell.env)
    const target = resolveTarget({ url: text('url'), dataDir, env: shell.env })
    if (target.isKeyWithheld)
      throw usageError(
        `${target.url.origin} (${target.urlFrom}) is not the controller of ${dataDir}, so the key in ${target.keyFrom} is not sent there`,
        'give a key of that cluster with MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE',
      )
    await definition.run({
      shell,
      api: createApiClient({ target, userAgent: `muster/${shell.version}`, clock: shell.clock }),
      print: createPrinter(shell.terminal, text('output') === 'json' ? 'json' : 'text'),
      words: command.args,
      option: text,
      flag: (name) => options[name] === true,
      isOff: (name) => options[name] === false,
      list: (name) => {
        const value = options[name]
        return Array.isArray(value) ? value.map(String) : []
      },
    })
  })
}
