// A line of a terminal made of parts, of which some are coloured. Widths are those of the text alone.
import { cutToWidth, displayWidth } from './text.ts'

export interface Segment {
  readonly text: string
  readonly colour?: Colour
}

/** What does not fit is cut, with `…`. */
export function renderSegments(segments: readonly Segment[], width: number, paint: Paint): string {
  const text = segments.map((segment) => segment.text).join('')
  const fits = displayWidth(text.trimEnd()) <= width
  let left = width
  let line = ''
  for (const segment of segments) {
    const isLast = !fits && displayWidth(segment.text) >= left
    const shown = isLast ? cutToWidth(`${segment.text} `, left) : segment.text
    line += segment.colour === undefined ? shown : paint(segment.colour, shown)
    left -= displayWidth(shown)
    if (isLast) break
  }
  return line.trimEnd()
}

export const padTo = (text: string, width: number): string => {
  const shown = cutToWidth(text, width)
  return shown + ' '.repeat(Math.max(0, width - displayWidth(shown)))
}

// Colours of a terminal; none where they are not wanted.
const codes = { red: 31, green: 32, yellow: 33, blue: 34, dim: 2 } as const
export type Colour = keyof typeof codes
export type Paint = (colour: Colour, text: string) => string

export const createPaint =
  (isColoured: boolean): Paint =>
  (colour, text) =>
    isColoured && text !== '' ? `\u001b[${codes[colour]}m${text}\u001b[${colour === 'dim' ? 22 : 39}m` : text

// Pure: a thin bar, in two halves so that it can be coloured: what is done and what is left.
export function progressBar(percentage: number, width: number): { readonly done: string; readonly left: string } {
  const halves = Math.floor(((Math.max(0, Math.min(100, percentage)) || 0) / 100) * width * 2)
  const done = `${'━'.repeat(Math.floor(halves / 2))}${halves % 2 === 1 ? '╸' : ''}`
  return { done, left: '─'.repeat(width - done.length) }
}
