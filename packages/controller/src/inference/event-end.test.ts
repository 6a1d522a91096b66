import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EventEnd } from './relay.ts'

const after = (chunks: readonly (string | Uint8Array)[]) => {
  const end = new EventEnd()
  for (const chunk of chunks) end.add(Buffer.from(chunk))
  return end.separator()
}

describe('G19 the separator before a new event', () => {
  it.each<[string, readonly string[], string]>([
    ['nothing was sent', [], ''],
    ['an event has ended', ['data: 1\n\n'], ''],
    ['an event has ended, with CR LF', ['data: 1\r\n\r\n'], ''],
    ['an event has ended, with CR', ['data: 1\r\r'], ''],
    ['an event has ended, with a mix', ['data: 1\r\n\n'], ''],
    ['an event has ended, in pieces', ['data: 1', '\r', '\n', '\r', '\n'], ''],
    ['a line has ended', ['data: 1\n'], '\n'],
    ['a line has ended, with CR LF', ['data: 1\r\n'], '\n'],
    ['in the middle of a line', ['data: {"a'], '\n\n'],
    ['in the middle of a line, in pieces', ['d', 'a'], '\n\n'],
    ['after zeros', ['\0\0\0\0'], '\n\n'],
  ])('%s', (_, chunks, want) => {
    expect(after(chunks)).toBe(want)
  })

  it('does not depend on where chunks end', () => {
    const piece = fc.constantFrom('\r', '\n', '\r\n', 'data: x', '\0', 'é')
    fc.assert(
      fc.property(fc.array(piece), fc.array(fc.nat(30)), (pieces, cuts) => {
        const bytes = Buffer.from(pieces.join(''))
        const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
        const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end))
        return after(chunks) === after([bytes])
      }),
    )
  })
})
