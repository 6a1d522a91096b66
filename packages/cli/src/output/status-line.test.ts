import { expect, it } from 'vitest'
import { createStatusLine } from './terminal.ts'

it('draws over itself, never wraps, and leaves nothing behind', () => {
  let written = ''
  const line = createStatusLine({ write: (text) => (written += text), isTTY: true, columns: 24 })
  line.clear()
  expect(written).toBe('')
  line.show('short')
  line.show('x'.repeat(50))
  line.clear()
  line.clear()
  expect(written).toBe(`\r\u001b[2Kshort\r\u001b[2K${'x'.repeat(22)}…\r\u001b[2K`)
})
