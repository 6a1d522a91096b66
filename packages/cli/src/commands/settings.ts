// `muster settings …`: the settings of controllers, and those that can change while they run.
import { type Command, Option } from 'commander'
import { type SettingChangeView, type SettingView, systemRoutes } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { type Column, renderTable } from '../output/table.ts'
import { plainText } from '../output/text.ts'
import type { Shell } from '../shell.ts'
import { addCommands, type ClientCommand, defineGroup } from './command.ts'

export function settings(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'settings', summary: 'List the settings of controllers, and change some while they run' })
  addCommands(group, shell, [settingsLs, settingsSet, settingsUnset, settingsHistory])
}

const settingColumns: Column<SettingView>[] = [
  { heading: 'SETTING', cell: ({ flag }) => flag },
  { heading: 'VALUE', cell: ({ value }) => (value === '' ? '-' : value), shrinks: true },
  { heading: 'FROM', cell: ({ from }) => from, shrinks: true },
  { heading: 'CHANGEABLE', cell: changeability, shrinks: true },
]

function changeability({ is_runtime: isRuntime, pinned_by: pinned = null }: SettingView): string {
  if (isRuntime !== true) return 'at the start'
  return pinned === null ? 'at any time' : `pinned by ${pinned}`
}

const settingsLs: ClientCommand = {
  name: 'ls',
  summary: 'List the settings of the controller with their origins',
  details: 'Secrets are not shown. A setting that is pinned is set at the start of a controller, and changes only there.',
  options: [new Option('--changeable', 'only settings that can change while controllers run')],
  examples: ['muster settings ls --changeable'],
  run: async ({ api, print, flag }) => {
    const { raw, body } = await api.call(systemRoutes.settings)
    const shown = flag('changeable') ? body.settings.filter(({ is_runtime: isRuntime }) => isRuntime === true) : body.settings
    print.result(flag('changeable') ? { ...body, settings: shown } : raw, () => renderTable(settingColumns, shown, print.width))
  },
}

const settingsSet: ClientCommand = {
  name: 'set',
  summary: 'Change settings of all controllers while they run',
  details: 'All or nothing. The change takes effect on every controller within a second, survives restarts, and is recorded.',
  arguments: [['<setting...>', 'NAME=VALUE, with the name as in --help of `muster controller`']],
  examples: ['muster settings set model-load-wait=2m', 'muster settings set op-retry-base=10s op-retry-max=5m'],
  run: async ({ api, print, words }) => {
    const { raw, body } = await api.call(systemRoutes.changeSettings, { body: parsePairs(words) })
    print.result(raw, () => describe(body.settings, namesOf(words)))
  },
}

const settingsUnset: ClientCommand = {
  name: 'unset',
  summary: 'Restore the default of settings',
  arguments: [['<name...>', 'the names of settings']],
  examples: ['muster settings unset model-load-wait'],
  run: async ({ api, print, words }) => {
    const { raw, body } = await api.call(systemRoutes.changeSettings, { body: Object.fromEntries(words.map((name) => [bare(name), null])) })
    print.result(raw, () => describe(body.settings, words.map(bare)))
  },
}

const changeColumns: Column<SettingChangeView>[] = [
  { heading: 'AT', cell: ({ at }) => at },
  { heading: 'SETTING', cell: ({ setting }) => setting },
  { heading: 'BEFORE', cell: ({ before }) => before ?? 'default', shrinks: true },
  { heading: 'AFTER', cell: ({ after }) => after ?? 'default', shrinks: true },
  { heading: 'BY', cell: ({ changed_by: by }) => by, shrinks: true },
]

const settingsHistory: ClientCommand = {
  name: 'history',
  summary: 'List the changes of settings, the newest first',
  options: [new Option('--limit <number>', 'how many to list (default: 100)')],
  examples: ['muster settings history'],
  run: async ({ api, print, option }) => {
    const query = systemRoutes.settingChanges.query?.safeParse({ limit: option('limit') })
    if (query?.success !== true) throw usageError('--limit must be a number from 1 to 1000')
    const { raw, body } = await api.call(systemRoutes.settingChanges, { query: query.data })
    if (print.format === 'text' && body.changes.length === 0) return print.remark('no setting was changed yet')
    print.result(raw, () => renderTable(changeColumns, body.changes, print.width))
  },
}

/** People write the flag as often as its name. */
const bare = (name: string): string => name.replace(/^--/, '')

function parsePairs(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    words.map((word) => {
      const [, name, value] = /^([^=]+)=(.*)$/s.exec(word) ?? []
      if (name === undefined || value === undefined)
        throw usageError(`${JSON.stringify(plainText(word))} is not NAME=VALUE`, '`muster settings unset NAME` restores a default')
      return [bare(name), value]
    }),
  )
}

const namesOf = (words: readonly string[]): string[] => words.map((word) => bare(word.slice(0, word.indexOf('='))))

const describe = (all: readonly SettingView[], names: readonly string[]): string =>
  all
    .filter(({ flag }) => names.includes(flag))
    .map(({ flag, value, from }) => plainText(`${flag} is ${value === '' ? 'empty' : value} (${from})`))
    .join('\n')
