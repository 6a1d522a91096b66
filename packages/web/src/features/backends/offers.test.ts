import { OfferedBackend } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { fitWords, misfits, searchOffers } from './backend-words.pure.ts'

const nodes = (...reasons: (string | null)[]): OfferedBackend['nodes'] =>
  OfferedBackend.shape.nodes.parse(
    reasons.map((reason, index) => ({ node_id: `n-${index}`, node_name: `gpu-${index}`, fits: reason === null, reason })),
  )
const offer = (name: string, given: Partial<OfferedBackend> = {}): OfferedBackend => ({
  ...{
    name,
    gallery: 'builtin',
    is_meta: false,
    channel: 'release',
    version: '1',
    description: '',
    license: '',
    icon: '',
    tags: [],
    urls: [],
  },
  ...{ installed: false, nodes: [] },
  ...given,
})

describe('an offered backend', () => {
  it.each([
    [[], 'no nodes yet'],
    [[null], 'fits 1 of 1 node'],
    [['no'], 'fits 0 of 1 node'],
    [[null, null], 'fits all 2 nodes'],
    [[null, 'no', null], 'fits 2 of 3 nodes'],
    [['no', 'no'], 'fits 0 of 2 nodes'],
  ])('%j: %s', (reasons, want) => expect(fitWords(nodes(...reasons))).toBe(want))

  it('lists each reason once', () => {
    expect(misfits(nodes('no image', null, 'no gpu', 'no image'))).toEqual(['gpu-0 and gpu-3: no image', 'gpu-2: no gpu'])
  })

  it.each([
    ['', ['llama', 'whisper']],
    ['LLAMA', ['llama']],
    ['audio', ['whisper']],
    ['speech mit', ['whisper']],
    ['speech apache', []],
  ])('is found by %j', (text, want) => {
    const offers = [
      offer('llama', { license: 'Apache-2.0' }),
      offer('whisper', { tags: ['audio'], description: 'Speech to text', license: 'MIT' }),
    ]
    expect(searchOffers(offers, text).map(({ name }) => name)).toEqual(want)
  })
})
