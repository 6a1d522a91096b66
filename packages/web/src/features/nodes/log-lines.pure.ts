// The last lines of a log. Pure.
export const mostLines = 5_000

/** The newest stay. */
export function appendLines(lines: readonly string[], more: readonly string[]): readonly string[] {
  if (more.length === 0) return lines
  return more.length >= mostLines ? more.slice(-mostLines) : [...lines.slice(Math.max(0, lines.length + more.length - mostLines)), ...more]
}

/** Those that have the text in them, in any case. */
export function filterLines(lines: readonly string[], text: string): readonly string[] {
  const wanted = text.toLowerCase()
  return wanted === '' ? lines : lines.filter((line) => line.toLowerCase().includes(wanted))
}
