import { expect, it } from 'vitest'
import { appendLines, filterLines, maxLines } from './log-lines.pure.ts'

const numbers = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, i) => String(from + i))

it('keeps the newest lines up to the limit', () => {
  const full = appendLines([], numbers(0, maxLines))
  expect(full).toHaveLength(maxLines)
  const more = appendLines(full, numbers(maxLines, maxLines + 10))
  expect([more.length, more[0], more.at(-1)]).toEqual([maxLines, '10', String(maxLines + 9)])
  expect(appendLines(['a'], numbers(0, maxLines + 5))[0]).toBe('5')
  expect(appendLines(full, [])).toBe(full)
})
it('finds text in any case', () => expect(filterLines(['Error: a', 'fine', 'an error'], 'ERROR')).toEqual(['Error: a', 'an error']))
