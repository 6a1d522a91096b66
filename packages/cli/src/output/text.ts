// Text that came from elsewhere, made safe for a terminal. Names, reasons and versions are told by
// foreign machines: an escape sequence in one could rewrite the screen or the clipboard, a line break
// or a change of writing direction could fake a row of a table.
import { stripVTControlCharacters } from 'node:util'

export function plainText(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/[\t\n\v\f\r\u0085\p{Zl}\p{Zp}]/gu, ' ')
    .replace(/\p{C}/gu, '')
}

/** The same value for a JSON parser, and nothing in it that a terminal would obey (JSON itself escapes only C0). */
export function plainJson(value: unknown, indent?: number): string {
  const units = (text: string): string =>
    Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')
  return (JSON.stringify(value, null, indent) ?? 'null').replace(/[^\P{C}\n]|[\p{Zl}\p{Zp}]/gu, units)
}

// How many terminal cells a text takes, and how to cut it to some. An approximation: terminals
// themselves disagree about the rarer characters; being off by one moves a column, nothing more.
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

// East Asian wide and full-width blocks, and what is drawn as a picture.
const wide =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE4F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}|\uFE0F|[\u{20000}-\u{3FFFD}]/u

const cells = (grapheme: string): number => (wide.test(grapheme) ? 2 : 1)

export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  return Array.from(graphemes.segment(text)).reduce((sum, { segment }) => sum + cells(segment), 0)
}

/** The text if it fits, else its beginning and `…`. */
export function cutToWidth(text: string, width: number): string {
  if (displayWidth(text) <= width) return text
  let kept = ''
  let used = 0
  for (const { segment } of graphemes.segment(text)) {
    used += cells(segment)
    if (used > width - 1) break
    kept += segment
  }
  return `${kept}…`
}

/** One word for a shell, also inside of "$( )", whatever is in it. */
export const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

// Numbers and moments as people read them. An unknown is `-`, never 0.
const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']

export function formatBytes(bytes: number | null): string {
  if (bytes === null) return '-'
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  const value = bytes / 1000 ** power
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power] ?? 'B'}`
}

/** `12 of 64 GB free`-like pairs; unknown when either is. */
export const formatFree = (free: number | null, total: number | null): string =>
  total === null ? '-' : free === null ? formatBytes(total) : `${formatBytes(free)} free of ${formatBytes(total)}`

/** The two largest units that matter: `45s`, `12m`, `3h12m`, `9d4h`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`
  const days = Math.floor(hours / 24)
  return hours % 24 === 0 ? `${days}d` : `${days}d${hours % 24}h`
}

/** How long ago, by our own clock; `never` without a moment, `-` for one that can't be read. */
export function formatAge(moment: string | null, now: number): string {
  if (moment === null) return 'never'
  const at = Date.parse(moment)
  return Number.isNaN(at) ? '-' : formatDuration(now - at)
}
