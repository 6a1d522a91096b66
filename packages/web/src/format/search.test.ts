import { describe, expect, it } from 'vitest'
import { searchFor } from '../format.ts'

describe('a search', () => {
  it.each([
    ['', true],
    ['  ', true],
    ['speech', true],
    ['SPEECH mit', true],
    ['mit speech', true],
    ['speech gpl', false],
    // Two texts are not one word.
    ['whispermit', false],
  ])('%j: %s', (text, isFound) => expect(searchFor(text)('Whisper', 'MIT', 'speech to text')).toBe(isFound))
})
