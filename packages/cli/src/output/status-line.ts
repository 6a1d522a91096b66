// One line of a terminal that says what is waited for, and is gone when it is over.
import { cutToWidth } from './display-width.ts'
import type { OutputStream } from './terminal.ts'

export interface StatusLine {
  show(text: string): void
  clear(): void
}

export function createStatusLine(stream: OutputStream): StatusLine {
  let isShown = false
  return {
    show: (text) => {
      isShown = true
      stream.write(`\r\u001b[2K${cutToWidth(text, Math.max(20, (stream.columns || 80) - 1))}`)
    },
    clear: () => {
      if (isShown) stream.write('\r\u001b[2K')
      isShown = false
    },
  }
}
