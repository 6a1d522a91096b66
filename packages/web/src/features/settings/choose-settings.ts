// Which settings are listed, and in which order.
import type { SettingView } from '@muster/protocol'
import { searchFor } from '../../format/search.ts'

export const isChanged = ({ value, default: standard }: SettingView): boolean => value !== standard

/** Those that differ from the default first; all that hold the words, wherever. */
export function chooseSettings(settings: readonly SettingView[], search: string): readonly SettingView[] {
  const isFound = searchFor(search)
  return settings
    .filter(({ flag, value, from, description }) => isFound(`--${flag}`, value, from, description))
    .toSorted((a, b) => Number(isChanged(b)) - Number(isChanged(a)) || (a.flag < b.flag ? -1 : a.flag > b.flag ? 1 : 0))
}
