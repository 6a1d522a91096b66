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
