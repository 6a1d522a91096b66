import { expect, it } from 'vitest'
import { appendLines, filterLines, mostLines } from './log-lines.pure.ts'

const numbers = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, i) => String(from + i))

it('keeps the newest lines, and no more than there is room for', () => {
  const full = appendLines([], numbers(0, mostLines))
  expect(full).toHaveLength(mostLines)
  const more = appendLines(full, numbers(mostLines, mostLines + 10))
  expect([more.length, more[0], more.at(-1)]).toEqual([mostLines, '10', String(mostLines + 9)])
  expect(appendLines(['a'], numbers(0, mostLines + 5))[0]).toBe('5')
  expect(appendLines(full, [])).toBe(full)
})
it('finds text in any case', () => expect(filterLines(['Error: a', 'fine', 'an error'], 'ERROR')).toEqual(['Error: a', 'an error']))
