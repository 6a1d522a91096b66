import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { trainedContextOf } from './gguf-context.pure.ts'
import { ggufHead } from '../../../test/gguf.ts'

describe('the trained context', () => {
  it.each<[string, Buffer, number | null]>([
    [
      'is found behind other values',
      ggufHead([
        ['general.architecture', 'llama'],
        ['general.tags', ['a', 'bc']],
        ['llama.context_length', 8192],
      ]),
      8192,
    ],
    ['is not there', ggufHead([['general.architecture', 'llama']]), null],
    ['is absurd', ggufHead([['llama.context_length', 0]]), null],
    ['is not in another file', Buffer.from('not a GGUF file at all, but a text'), null],
    ['is not in an empty file', Buffer.alloc(0), null],
  ])('%s', (_, bytes, want) => expect(trainedContextOf(bytes)).toBe(want))

  it('of a file that is cut or broken is unknown, and nothing worse', () => {
    const whole = ggufHead([
      ['general.tags', ['a', 'b']],
      ['x.context_length', 4096],
    ])
    fc.assert(
      fc.property(fc.nat(whole.length), fc.nat(whole.length - 1), fc.nat(255), (end, at, byte) => {
        const broken = Buffer.from(whole)
        broken[at] = byte
        const found = trainedContextOf(broken.subarray(0, end))
        expect(found === null || Number.isInteger(found)).toBe(true)
      }),
    )
  })
})
