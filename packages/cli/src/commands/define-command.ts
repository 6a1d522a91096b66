// How a command of the tree is defined: name, one line of help, arguments, options, examples.
import { Command, type HelpContext, Option, type ParseOptionsResult } from 'commander'

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
