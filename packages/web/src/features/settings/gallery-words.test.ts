import { expect, it } from 'vitest'
import { galleryState, type GalleryProblem } from './settings-words.pure.ts'

const problem = (gallery: string, message: string): GalleryProblem => ({ gallery, message })

it.each<[string, readonly GalleryProblem[] | null, ReturnType<typeof galleryState>]>([
  ['nobody has looked', null, { tone: 'idle', word: 'being read', sentence: null }],
  ['nothing is wrong', [], { tone: 'good', word: 'readable', sentence: null }],
  ['another one has a problem', [problem('b', 'gone')], { tone: 'good', word: 'readable', sentence: null }],
  ['it has two', [problem('a', 'One.'), problem('a', 'Two.')], { tone: 'bad', word: 'problem', sentence: 'One. Two.' }],
])('a gallery when %s', (_, problems, want) => {
  expect(galleryState('a', problems)).toEqual(want)
})
