import { expect, it } from 'vitest'
import { describeGallery, type GalleryProblem } from './settings-words.pure.ts'

const problem = (gallery: string, message: string): GalleryProblem => ({ gallery, message })

it.each<[string, readonly GalleryProblem[] | null, ReturnType<typeof describeGallery>]>([
  ['it is being read', null, { tone: 'idle', word: 'loading', sentence: null }],
  ['there are no problems', [], { tone: 'good', word: 'ok', sentence: null }],
  ['another gallery has a problem', [problem('b', 'gone')], { tone: 'good', word: 'ok', sentence: null }],
  ['it has two problems', [problem('a', 'One.'), problem('a', 'Two.')], { tone: 'bad', word: 'error', sentence: 'One. Two.' }],
])('a gallery when %s', (_, problems, want) => {
  expect(describeGallery('a', problems)).toEqual(want)
})
