import { describe, expect, it } from 'vitest'
import { markdownTable, withGeneratedParts } from './generated-part.ts'

const page = 'Before.\n<!-- begin generated: a -->\nold\n<!-- end generated: a -->\nAfter.\n'

describe('a generated part of a page', () => {
  it('replaces the text between its markers and nothing else', () => {
    expect(withGeneratedParts(page, { a: 'new' })).toBe('Before.\n<!-- begin generated: a -->\nnew\n<!-- end generated: a -->\nAfter.\n')
  })

  it('is the same when it is put in twice', () => {
    const once = withGeneratedParts(page, { a: 'new' })
    expect(withGeneratedParts(once, { a: 'new' })).toBe(once)
  })

  it.each([
    ['a marker is missing', page.replace('end generated', 'the end')],
    ['the page has it twice', page + page],
    ['the markers are in the wrong order', page.replaceAll(/begin|end/g, (word) => (word === 'end' ? 'begin' : 'end'))],
  ])('is refused when %s', (_, broken) => {
    expect(() => withGeneratedParts(broken, { a: 'new' })).toThrow('markers of "a"')
  })
})

describe('a table', () => {
  it('keeps a cell one cell, whatever is in it', () => {
    expect(markdownTable(['a', 'b'], [['x|y', '`<n>|` <b>']])).toBe('| a | b |\n| --- | --- |\n| x\\|y | `<n>\\|` &lt;b> |')
  })
})
