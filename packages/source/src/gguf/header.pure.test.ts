import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { writeGguf, type GgufContent, type GgufEntry } from '../../test/write-gguf.ts'
import { readGgufFacts } from './facts.pure.ts'
import { readGgufHeader } from './header.pure.ts'
import { tensorBytes } from './tensor-types.pure.ts'

const tiny = readFileSync(join(import.meta.dirname, '../../../../models/tiny/tiny.gguf'))
const read = (bytes: Uint8Array) => readGgufHeader(bytes, () => undefined)
const facts = (content: GgufContent) => {
  const reading = readGgufFacts(writeGguf(content))
  return reading.kind === 'facts' ? reading.facts : reading
}

describe('facts of a GGUF file', () => {
  it('are those of the tiny model', () => {
    const reading = readGgufFacts(tiny.subarray(0, 64 * 1024))
    expect(reading).toMatchObject({
      kind: 'facts',
      facts: {
        ...{ architecture: 'llama', kind: 'model', layers: 4, context: 512, embedding: 160, feed_forward: 448 },
        ...{ heads: 5, kv_heads: 5, vocabulary: 960, tensors: { count: 38, input_bytes: 960 * 160 * 2 } },
      },
    })
    // The tensors are everything behind the header.
    const { dataOffset } = readHeaderOf(tiny)
    const sizes = reading.kind === 'facts' ? reading.facts.tensors.bytes : null
    expect(Math.abs((sizes ?? 0) - (tiny.length - dataOffset))).toBeLessThan(38 * 32)
  })

  it.each<[string, GgufContent, object]>([
    [
      'key-value heads per layer',
      { keys: [text('general.architecture', 'x'), u32('x.block_count', 2), list('x.attention.head_count_kv', 4, [4, 0])] },
      { kv_heads: [4, 0], layers: 2 },
    ],
    [
      'the vocabulary by its tokens',
      { keys: [text('general.architecture', 'x'), texts('tokenizer.ggml.tokens', ['a', 'b'])] },
      { vocabulary: 2 },
    ],
    [
      'a projector',
      { keys: [text('general.architecture', 'clip')], tensors: [{ name: 'v.blk.0.w', dims: [64], type: 1 }] },
      { kind: 'projector', tensors: { bytes: 128 } },
    ],
    ['an adapter', { keys: [text('general.architecture', 'llama'), text('general.type', 'adapter')] }, { kind: 'adapter' }],
    [
      'a part of a split model',
      { keys: [u16('split.no', 1), u16('split.count', 3)], tensors: [{ name: 'blk.9.w', dims: [256, 2], type: 12 }] },
      { part: 1, architecture: '', tensors: { layer_bytes: 288 } },
    ],
    ['version 2', { version: 2, keys: [text('general.architecture', 'x')] }, { architecture: 'x' }],
    ['a tensor type that is unknown', { keys: [], tensors: [{ name: 'a', dims: [4], type: 9_999 }] }, { tensors: { bytes: null } }],
    [
      'figures that no model has as unknown',
      { keys: [text('general.architecture', 'x'), u32('x.block_count', 4_000_000_000)] },
      { layers: undefined },
    ],
    [
      'tensors larger than any disk as unknown',
      { keys: [], tensors: [{ name: 'a', dims: [2 ** 26, 2 ** 26], type: 0 }] },
      { tensors: { bytes: null } },
    ],
    [
      'a recurrent model',
      { keys: [text('general.architecture', 'm'), u32('m.ssm.inner_size', 8), u32('m.ssm.state_size', 4), u32('m.ssm.conv_kernel', 4)] },
      { recurrent_state: 8 * 4 + 3 * 8 },
    ],
  ])('have %s', (_, content, want) => {
    expect(facts(content)).toMatchObject(want)
  })
})

describe('a header that is not valid', () => {
  const head = (...rest: readonly (number | bigint)[]): Uint8Array => {
    const bytes = new DataView(new ArrayBuffer(24 + 64))
    bytes.setUint32(0, 0x46_55_47_47, true)
    bytes.setUint32(4, Number(rest[0] ?? 3), true)
    bytes.setBigUint64(8, BigInt(rest[1] ?? 0), true)
    bytes.setBigUint64(16, BigInt(rest[2] ?? 0), true)
    return new Uint8Array(bytes.buffer)
  }
  it.each<[string, Uint8Array, RegExp]>([
    ['other bytes', new TextEncoder().encode('PK\u0003\u0004 and so on, longer than a header'), /does not begin with GGUF/],
    ['version 1', head(1), /version 1 is not supported/],
    ['big endian', head(0x03_00_00_00), /big-endian/],
    ['too many tensors', head(3, 2n ** 40n), /tensors; at most/],
    ['too many keys', head(3, 0, 2n ** 40n), /keys; at most/],
    ['a count beyond all numbers', head(3, 2n ** 63n), /larger than any file/],
    ['a key that is too long', writeGguf({ keys: [text('k'.repeat(5_000), 'v')] }), /a metadata key has 5000 bytes/],
    ['an unknown type', writeGguf({ keys: [{ key: 'a', type: 77, bytes: new Uint8Array(8) }] }), /unknown type 77/],
    ['nested lists', writeGguf({ keys: [nested('a', 6)] }), /nested lists/],
    [
      'a tensor with many dimensions',
      writeGguf({ keys: [], tensors: [{ name: 'a', dims: Array.from({ length: 9 }, () => 1), type: 0 }] }),
      /9 dimensions/,
    ],
    [
      'a tensor beyond all numbers',
      writeGguf({ keys: [], tensors: [{ name: 'a', dims: [2 ** 40, 2 ** 40], type: 0 }] }),
      /larger than any file/,
    ],
    ['a list longer than any header', writeGguf({ keys: [{ key: 'a', type: 9, bytes: longList(4, 2 ** 40) }] }), /larger than/],
  ])('is refused: %s', (_, bytes, reason) => {
    expect(read(bytes)).toEqual({ kind: 'invalid', reason: expect.stringMatching(reason) as string })
  })
})

it.each([
  ['f32', 0, 4],
  ['f16', 1, 2],
  ['q4_0', 2, 18 / 32],
  ['q8_0', 8, 34 / 32],
  ['q4_k', 12, 144 / 256],
  ['q6_k', 14, 210 / 256],
  ['mxfp4', 39, 17 / 32],
])('an element of %s has its size', (_, type, bytes) => expect(tensorBytes(type, 1_024)).toBe(bytes * 1_024))

it('a prefix asks for more bytes than it has, and never for less', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: readHeaderOf(tiny).dataOffset - 64 }), (length) => {
      const reading = read(tiny.subarray(0, length))
      expect(reading.kind).toBe('more')
      if (reading.kind === 'more') expect(reading.bytes).toBeGreaterThan(length)
    }),
  )
})

it('bytes that were changed at random neither throw nor take long', () => {
  const header = tiny.subarray(0, readHeaderOf(tiny).dataOffset)
  const change = fc.record({ at: fc.nat(header.length - 1), value: fc.nat(255) })
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 8 }), (changes) => {
      const bytes = Uint8Array.from(header)
      for (const { at, value } of changes) bytes[at] = value
      expect(['facts', 'more', 'invalid']).toContain(readGgufFacts(bytes).kind)
    }),
    { numRuns: 300 },
  )
})

it('any bytes are read without an error', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 512 }), (rest) => {
      const bytes = Uint8Array.from([...new TextEncoder().encode('GGUF'), 3, 0, 0, 0, ...rest])
      expect(['facts', 'more', 'invalid']).toContain(readGgufFacts(bytes).kind)
    }),
    { numRuns: 500 },
  )
})

function readHeaderOf(bytes: Uint8Array) {
  const reading = read(bytes)
  if (reading.kind !== 'header') throw new Error(`no header: ${reading.kind}`)
  return reading.header
}

const number = (key: string, type: number, size: number, value: number): GgufEntry => {
  const bytes = new Uint8Array(size)
  for (let at = 0; at < size; at += 1) bytes[at] = Math.floor(value / 256 ** at) % 256
  return { key, type, bytes }
}
const u16 = (key: string, value: number): GgufEntry => number(key, 2, 2, value)
const u32 = (key: string, value: number): GgufEntry => number(key, 4, 4, value)
const text = (key: string, value: string): GgufEntry => ({ key, type: 8, bytes: lengthPrefixed(value) })
const texts = (key: string, values: readonly string[]): GgufEntry => ({
  ...{ key, type: 9 },
  bytes: Buffer.concat([longList(8, values.length), ...values.map(lengthPrefixed)]),
})
const list = (key: string, type: number, values: readonly number[]): GgufEntry => ({
  ...{ key, type: 9 },
  bytes: Buffer.concat([longList(type, values.length), ...values.map((value) => u32('', value).bytes)]),
})
const nested = (key: string, depth: number): GgufEntry => ({
  ...{ key, type: 9 },
  bytes: Buffer.concat([...Array.from({ length: depth }, () => longList(9, 1)), longList(0, 0)]),
})

function longList(type: number, length: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(12))
  view.setUint32(0, type, true)
  view.setBigUint64(4, BigInt(length), true)
  return new Uint8Array(view.buffer)
}

function lengthPrefixed(value: string): Uint8Array {
  const bytes = new TextEncoder().encode(value)
  const length = new DataView(new ArrayBuffer(8))
  length.setBigUint64(0, BigInt(bytes.length), true)
  return Buffer.concat([new Uint8Array(length.buffer), bytes])
}
