// A line of a terminal made of colored segments. Widths are those of the text without escape sequences.
import { cutToWidth, displayWidth } from './text.ts'

export interface Segment {
  readonly text: string
  readonly color?: Color
}

/** Cuts at the width, with `…`. */
export function renderSegments(segments: readonly Segment[], width: number, paint: Paint): string {
  const text = segments.map((segment) => segment.text).join('')
  const fits = displayWidth(text.trimEnd()) <= width
  let left = width
  let line = ''
  for (const segment of segments) {
    const isLast = !fits && displayWidth(segment.text) >= left
    const shown = isLast ? cutToWidth(`${segment.text} `, left) : segment.text
    line += segment.color === undefined ? shown : paint(segment.color, shown)
    left -= displayWidth(shown)
    if (isLast) break
  }
  return line.trimEnd()
}

export const padTo = (text: string, width: number): string => {
  const shown = cutToWidth(text, width)
  return shown + ' '.repeat(Math.max(0, width - displayWidth(shown)))
}

const codes = { red: 31, green: 32, yellow: 33, blue: 34, dim: 2 } as const
export type Color = keyof typeof codes
export type Paint = (color: Color, text: string) => string

export const createPaint =
  (isColored: boolean): Paint =>
  (color, text) =>
    isColored && text !== '' ? `\u001b[${codes[color]}m${text}\u001b[${color === 'dim' ? 22 : 39}m` : text

export function progressBar(percentage: number, width: number): { readonly done: string; readonly left: string } {
  const halves = Math.floor(((Math.max(0, Math.min(100, percentage)) || 0) / 100) * width * 2)
  const done = `${'━'.repeat(Math.floor(halves / 2))}${halves % 2 === 1 ? '╸' : ''}`
  return { done, left: '─'.repeat(width - done.length) }
}
