// A line of a terminal made of parts, of which some are coloured. Widths are those of the text alone.
import { cutToWidth, displayWidth } from './display-width.ts'
import type { Colour, Paint } from './paint.ts'

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
