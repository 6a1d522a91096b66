// Writes the tables of docs/settings.md from the definitions that the programs themselves use.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { environmentName, systemClock, type Setting, type Settings } from '@muster/host'
import { HelpfulCommand } from '../packages/cli/src/commands/command.ts'
import { createInput, createTerminal } from '../packages/cli/src/output/terminal.ts'
import { createProgram } from '../packages/cli/src/program.ts'
import { logSettings } from '../packages/cli/src/serve/settings.ts'
import { controllerSettings } from '../packages/controller/src/settings.ts'
import { workerSettings } from '../packages/worker/src/settings.ts'
import { root } from './environment.ts'
import { markdownTable, withGeneratedParts } from './generated-part.ts'

export const settingsPage = join(root, 'docs', 'settings.md')

export async function renderSettingsDoc(page: string): Promise<string> {
  const commands = await leafCommands()
  return withGeneratedParts(page, {
    'controller settings': settingsTable(controllerSettings),
    'worker settings': settingsTable(workerSettings),
    'log settings': settingsTable(logSettings),
    'options of commands': optionsTable(commands),
    commands: markdownTable(
      ['Command', 'Does'],
      commands.map(({ name, command }) => [`\`${name}\``, command.summary()]),
    ),
  })
}

function settingsTable(settings: Settings): string {
  return markdownTable(['Flag', 'Environment', 'Kind', 'Default', 'Meaning'], Object.values(settings).map(settingRow))
}

function settingRow(setting: Setting<unknown>): string[] {
  const name = environmentName(setting.flag)
  const variables = [name, ...(setting.kind === 'secret' ? [`${name}_FILE`] : []), ...setting.aliases]
  const flag = setting.allowFlag ? `\`--${setting.flag}\`` : `\`${setting.flag}\` (never as a flag)`
  return [flag, variables.map(code).join(', '), setting.kind, setting.defaultText === '' ? '' : code(setting.defaultText), setting.help]
}

const code = (text: string): string => `\`${text}\``

type Option = HelpfulCommand['options'][number]

interface Leaf {
  /** With its arguments: `muster nodes show <node>`. */
  readonly name: string
  readonly command: HelpfulCommand
}

/** The commands that do something, in the order in which the help lists them, with the options of each loaded. */
async function leafCommands(): Promise<Leaf[]> {
  const terminal = createTerminal({ stdout: process.stdout, stderr: process.stderr, env: {} })
  const ignore = (): void => undefined
  const program = createProgram({
    terminal,
    input: createInput(process),
    env: {},
    clock: systemClock,
    version: '',
    ignoreClosedOutput: ignore,
    fail: ignore,
  })
  const leaves = leavesBelow(program, 'muster').filter(({ command }) => command.summary() !== '')
  for (const { command } of leaves) await command.prepare()
  return leaves
}

function leavesBelow(parent: Pick<HelpfulCommand, 'commands'>, path: string): Leaf[] {
  return parent.commands.flatMap((command) => {
    const name = `${path} ${command.name()}`
    if (command.commands.length > 0) return leavesBelow(command, name)
    return command instanceof HelpfulCommand ? [{ name: [name, ...command.registeredArguments.map(argumentOf)].join(' '), command }] : []
  })
}

const argumentOf = (argument: { name(): string; required: boolean; variadic: boolean }): string => {
  const word = `${argument.name()}${argument.variadic ? '…' : ''}`
  return argument.required ? `<${word}>` : `[${word}]`
}

/** Options that are no settings of a controller or worker, and which commands take them. */
function optionsTable(commands: readonly Leaf[]): string {
  const settings = [controllerSettings, workerSettings, logSettings].flatMap((each) => Object.values(each))
  const isSetting = (option: Pick<Option, 'long' | 'description'>): boolean =>
    settings.some(({ flag, help }) => option.long === `--${flag}` && option.description.startsWith(help.replace(/ \(default.*\)$/, '')))
  const options = commands.flatMap(({ name, command }) =>
    command.options
      .filter((option) => !option.hidden && !isSetting(option))
      .map(({ flags, description }) => ({ flags, description, takenBy: name })),
  )
  const all = commands.map(({ name }) => name)
  const rows = [...Map.groupBy(options, ({ flags, description }) => JSON.stringify([flags, description])).values()].map((same) => [
    code(same[0]?.flags ?? ''),
    namesOf(
      same.map(({ takenBy }) => takenBy),
      all,
    ),
    same[0]?.description ?? '',
  ])
  return markdownTable(['Option', 'Taken by', 'Meaning'], rows)
}

/** The shorter list: the commands, or all but the others. */
function namesOf(takers: readonly string[], all: readonly string[]): string {
  const listed = (names: readonly string[]): string => names.map((name) => code(shortName(name))).join(', ')
  const others = all.filter((name) => !takers.includes(name))
  return others.length < takers.length ? `all but ${listed(others)}` : listed(takers)
}

/** `nodes show` of `muster nodes show <node>`. */
const shortName = (name: string): string => name.replace(/^muster /, '').replace(/ [<[].*$/, '')

if (import.meta.main) await writeFile(settingsPage, await renderSettingsDoc(await readFile(settingsPage, 'utf8')))
