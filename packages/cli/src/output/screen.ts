// Lines of a terminal that are drawn again and again in the same place, below what was there before.
import type { OutputStream } from './terminal.ts'

export interface Screen {
  /** Cells per line as they are now: windows change their size. */
  width(): number
  /** Lines that can be drawn. */
  height(): number
  /** What does not fit is left out, and counted in the last line. */
  draw(lines: readonly string[]): void
}

export function createScreen(stream: OutputStream): Screen {
  let drawn = 0
  return {
    width: () => Math.max(40, stream.columns || 80),
    height: () => roomIn(stream),
    draw: (lines) => {
      const shown = fitLines(lines, roomIn(stream))
      const back = drawn === 0 ? '' : `\u001b[${drawn}A`
      const text = shown.map((line) => `\u001b[2K${line}\n`).join('')
      // Without wrapping: a line that took two would not be found again.
      stream.write(`${back}\u001b[?7l${text}\u001b[J\u001b[?7h`)
      drawn = shown.length
    },
  }
}

/** One line stays free for the cursor: writing below the last one would scroll. */
const roomIn = (stream: OutputStream): number => Math.max(2, (stream.rows || 24) - 1)

function fitLines(lines: readonly string[], most: number): readonly string[] {
  return lines.length <= most ? lines : [...lines.slice(0, most - 1), `… and ${lines.length - most + 1} more`]
}
