// Text for a terminal. Names, reasons and versions come from other machines: an escape sequence in one could rewrite the
// screen or the clipboard, a line break or a change of writing direction could fake a row of a table.
import { stripVTControlCharacters } from 'node:util'
import { formatDuration } from '@muster/protocol'

export function plainText(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/[\t\n\v\f\r\u0085\p{Zl}\p{Zp}]/gu, ' ')
    .replace(/\p{C}/gu, '')
}

/** JSON without control characters that a terminal would obey (JSON escapes only C0). */
export function plainJson(value: unknown, indent?: number): string {
  const units = (text: string): string =>
    Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')
  return (JSON.stringify(value, null, indent) ?? 'null').replace(/[^\P{C}\n]|[\p{Zl}\p{Zp}]/gu, units)
}

// Widths are approximate: terminals disagree about rare characters, and an error of one cell only moves a column.
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

// East Asian wide and full-width blocks, and emoji.
const wide =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE4F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}|\uFE0F|[\u{20000}-\u{3FFFD}]/u

const cells = (grapheme: string): number => (wide.test(grapheme) ? 2 : 1)

export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  return Array.from(graphemes.segment(text)).reduce((sum, { segment }) => sum + cells(segment), 0)
}

/** Cuts a text that does not fit, with `…`. */
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

/** Quotes a text as one word of a shell, also inside "$( )". */
export const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

/** The age by the local clock; `never` without a moment, `-` for a malformed one. */
export function formatAge(moment: string | null, now: number): string {
  if (moment === null) return 'never'
  const at = Date.parse(moment)
  return Number.isNaN(at) ? '-' : formatDuration(now - at)
}
