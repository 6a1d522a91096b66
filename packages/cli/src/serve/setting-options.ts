// Settings as options of the command line, and back. Options have no default here: what nobody gave
// must not hide what the environment or the file says.
import { Option } from 'commander'
import type { Setting, Settings, SettingsSources } from '@muster/host'
import type { OptionValues } from '../commands/command.ts'
import { shellWord } from '../output/text.ts'

const placeholders: Readonly<Record<Setting<unknown>['kind'], string>> = {
  string: '<text>',
  choice: '<choice>',
  int: '<n>',
  bool: '[true|false]',
  duration: '<duration>',
  list: '<text>',
  map: '<key=value,…>',
  secret: '<secret>',
}

export function settingOption(setting: Setting<unknown>): Option {
  const help = setting.defaultText === '' ? setting.help : `${setting.help} (default: ${setting.defaultText})`
  const option = new Option(`--${setting.flag} ${placeholders[setting.kind]}`, help)
  if (setting.kind === 'list' || setting.kind === 'map')
    option.argParser((value: string, before: readonly string[] | undefined) => [...(before ?? []), value])
  // Known, so that giving one is refused with the reason and the way to do it.
  if (!setting.allowFlag) option.hideHelp()
  return option
}

/** The setting for a command that can't do without it: no default is offered. */
export const neededSetting = (setting: Setting<unknown>): Setting<unknown> => ({
  ...setting,
  help: `${setting.help.replace(/ \(default.*\)$/, '')} (needed)`,
  defaultText: '',
})

/** What was given on the command line, by the names of the flags. */
export function flagsGiven(settings: Settings, values: OptionValues): SettingsSources['flags'] {
  const given = Object.values(settings).flatMap((setting) => {
    const value = values[settingOption(setting).attributeName()]
    return typeof value === 'string' || typeof value === 'boolean' || isTexts(value) ? [[setting.flag, value] as const] : []
  })
  return Object.fromEntries(given)
}

const isTexts = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every((one) => typeof one === 'string')

// The flags that a command was given, as they are written in a shell: for suggesting the same command with a change.

export interface GivenFlag {
  readonly flag: string
  /** `--port 9000`. */
  readonly text: string
}

/** Secrets are named, and their values left to be filled in. */
export function givenFlags(settings: Settings, values: OptionValues): readonly GivenFlag[] {
  const flags = flagsGiven(settings, values)
  const ofSettings = Object.values(settings).flatMap(({ flag, kind }) =>
    [flags[flag] ?? []].flat().map((value) => ({ flag, text: kind === 'secret' ? `--${flag} …` : write(flag, value) })),
  )
  const { dataDir, config } = values
  const places = [
    ['data-dir', dataDir],
    ['config', config],
  ] as const
  return [...ofSettings, ...places.flatMap(([flag, value]) => (typeof value === 'string' ? [{ flag, text: write(flag, value) }] : []))]
}

const write = (flag: string, value: string | boolean): string => (value === true ? `--${flag}` : `--${flag} ${shellWord(String(value))}`)
