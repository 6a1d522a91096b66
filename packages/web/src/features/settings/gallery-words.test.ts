import { expect, it } from 'vitest'
import type { LeftOut } from '@muster/protocol'
import { describeGallery, type GalleryProblem, leftOutLines } from './settings-words.pure.ts'

const problem = (gallery: string, message: string): GalleryProblem => ({ gallery, message })

it.each<[string, readonly GalleryProblem[] | null, ReturnType<typeof describeGallery>]>([
  ['it is being read', null, { tone: 'idle', word: 'loading', sentence: null }],
  ['there are no problems', [], { tone: 'good', word: 'ok', sentence: null }],
  ['another gallery has a problem', [problem('b', 'gone')], { tone: 'good', word: 'ok', sentence: null }],
  ['it has two problems', [problem('a', 'One.'), problem('a', 'Two.')], { tone: 'bad', word: 'error', sentence: 'One. Two.' }],
])('a gallery when %s', (_, problems, want) => {
  expect(describeGallery('a', problems === null ? null : { problems, left_out: [] })).toEqual(want)
})

const leftOut: LeftOut = {
  gallery: 'a',
  count: 3,
  entries: [0, 4].map((index) => ({ index, name: index === 0 ? '' : 'x', message: 'no name' })),
}

it('a gallery with entries that cannot be read names the first ones', () => {
  expect(describeGallery('a', { problems: [], left_out: [leftOut] })).toEqual({
    ...{ tone: 'wait', word: '3 left out' },
    sentence: 'a: entry 1: no name. a: entry 5 (x): no name. a: 1 more.',
  })
  expect(describeGallery('b', { problems: [], left_out: [leftOut] })).toMatchObject({ word: 'ok' })
  expect(leftOutLines([leftOut])).toHaveLength(3)
})
