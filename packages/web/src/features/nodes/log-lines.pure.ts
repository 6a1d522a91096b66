// The buffer of log lines.
export const maxLines = 5_000

/** Keeps the newest lines. */
export function appendLines(lines: readonly string[], more: readonly string[]): readonly string[] {
  if (more.length === 0) return lines
  return more.length >= maxLines ? more.slice(-maxLines) : [...lines.slice(Math.max(0, lines.length + more.length - maxLines)), ...more]
}

/** Lines that contain the text, in any case. */
export function filterLines(lines: readonly string[], text: string): readonly string[] {
  const needle = text.toLowerCase()
  return needle === '' ? lines : lines.filter((line) => line.toLowerCase().includes(needle))
}
