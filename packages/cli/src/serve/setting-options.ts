// Settings as options of the command line, and back. Options have no default: a default would hide the values of the
// environment and the file.
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
  // Defined, so that its use is refused with the reason and the alternative.
  if (!setting.allowFlag) option.hideHelp()
  return option
}

/** The setting for a command that requires it: without a default. */
export const neededSetting = (setting: Setting<unknown>): Setting<unknown> => ({
  ...setting,
  help: `${setting.help.replace(/ \(default.*\)$/, '')} (needed)`,
  defaultText: '',
})

/** The values of the command line, by flag. */
export function flagsGiven(settings: Settings, values: OptionValues): SettingsSources['flags'] {
  const given = Object.values(settings).flatMap((setting) => {
    const value = values[settingOption(setting).attributeName()]
    return typeof value === 'string' || typeof value === 'boolean' || isTexts(value) ? [[setting.flag, value] as const] : []
  })
  return Object.fromEntries(given)
}

const isTexts = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every((one) => typeof one === 'string')

export interface GivenFlag {
  readonly flag: string
  /** `--port 9000`. */
  readonly text: string
}

/** The flags of a command as written in a shell, to suggest the command with a change. Values of secrets are left out. */
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
