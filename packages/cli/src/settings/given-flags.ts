// The flags that a command was given, as they are written in a shell: for suggesting the same command with a change.
import type { Settings } from '@muster/host'
import type { OptionValues } from '../commands/define-command.ts'
import { shellWord } from '../output/shell-word.ts'
import { flagsGiven } from './setting-options.ts'

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
