import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createSseParser, type ServerEvent } from './sse-parser.ts'

const parse = (...pieces: string[]): ServerEvent[] => {
  const parser = createSseParser('start')
  return pieces.flatMap((piece) => parser.push(piece))
}
const event = (some: Partial<ServerEvent>): ServerEvent => ({ type: 'message', data: '', lastEventId: 'start', ...some })

describe('createSseParser', () => {
  it.each<[string, string[], ServerEvent[]]>([
    ['reads type, data and id', ['event: node\nid: 7\ndata: {"a":1}\n\n'], [event({ type: 'node', data: '{"a":1}', lastEventId: '7' })]],
    [
      'keeps the last id for events without one',
      ['id: 7\ndata: a\n\ndata: b\n\n'],
      [event({ data: 'a', lastEventId: '7' }), event({ data: 'b', lastEventId: '7' })],
    ],
    ['joins lines of data', ['data: a\ndata: b\n\n'], [event({ data: 'a\nb' })]],
    ['takes one blank after the colon, not two', ['data:  a\n\n'], [event({ data: ' a' })]],
    ['passes over comments and unknown fields', [': ping\nfoo: bar\ndata: a\n\n'], [event({ data: 'a' })]],
    ['gives nothing for an event without data', ['event: node\nid: 8\n\n'], []],
    ['waits for the end of an event', ['data: a\n'], []],
    [
      'understands CRLF and CR',
      ['data: a\r\n\r\ndata: b\r\rdata: c\n\n'],
      [event({ data: 'a' }), event({ data: 'b' }), event({ data: 'c' })],
    ],
    ['understands a CRLF that arrives in halves', ['data: a\r', '\n\r', '\n'], [event({ data: 'a' })]],
    ['passes over a byte order mark', ['\uFEFFdata: a\n\n'], [event({ data: 'a' })]],
  ])('%s', (_, pieces, want) => expect(parse(...pieces)).toEqual(want))

  it('gives the same events however the text is cut', () => {
    const text = 'event: node\r\nid: 7\r\ndata: {"a":1}\r\n\r\n: ping\n\ndata: b\ndata: c\n\nid: 9\rdata: d\r\r\n'
    fc.assert(
      fc.property(fc.array(fc.nat(text.length), { maxLength: 10 }), (cuts) => {
        const at = [0, ...cuts.toSorted((a, b) => a - b), text.length]
        const pieces = at.slice(1).map((end, index) => text.slice(at[index], end))
        expect(parse(...pieces)).toEqual(parse(text))
      }),
    )
  })

  it('refuses an event that would fill the memory', () => {
    const parser = createSseParser('')
    expect(() => {
      for (let i = 0; i < 20; i++) parser.push('x'.repeat(1024 * 1024))
    }).toThrow('longer than 16 MiB')
  })
})
