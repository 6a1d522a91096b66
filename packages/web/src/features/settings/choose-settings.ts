// Which settings are listed, and in which order.
import type { SettingView } from '@muster/protocol'

export const isChanged = ({ value, default: standard }: SettingView): boolean => value !== standard

/** Those that differ from the default first; all that hold the words, wherever. */
export function chooseSettings(settings: readonly SettingView[], search: string): readonly SettingView[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const holds = ({ flag, value, from, description }: SettingView): boolean => {
    const text = `--${flag} ${value} ${from} ${description}`.toLowerCase()
    return words.every((word) => text.includes(word))
  }
  return settings
    .filter(holds)
    .toSorted((a, b) => Number(isChanged(b)) - Number(isChanged(a)) || (a.flag < b.flag ? -1 : a.flag > b.flag ? 1 : 0))
}
