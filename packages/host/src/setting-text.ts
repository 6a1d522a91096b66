// A value of a setting as a person would write it. What must not be seen is not in it.
import { formatSettingDuration } from './duration.ts'
import type { SettingKind } from './setting-kinds.ts'

export function settingText(kind: SettingKind, value: unknown): string {
  if (kind === 'secret') return value === undefined ? 'not set' : 'set'
  if (value === undefined || value === null) return ''
  if (kind === 'duration' && typeof value === 'number') return formatSettingDuration(value)
  if (Array.isArray(value)) return value.map((each) => withoutPassword(String(each))).join(', ')
  if (typeof value === 'object')
    return Object.entries(value)
      .map(([key, each]) => `${key}=${withoutPassword(String(each))}`)
      .join(', ')
  return withoutPassword(typeof value === 'string' ? value : JSON.stringify(value))
}

/** Of addresses: whoever is named before an @ may be named with a password, or by a token. */
const withoutPassword = (text: string): string => text.replaceAll(/(:\/\/)[^/?#\s,]*@/g, '$1***@')
