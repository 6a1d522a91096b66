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
