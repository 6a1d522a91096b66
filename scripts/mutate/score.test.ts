import { expect, it } from 'vitest'
import { formatScores, formatSurvivors, scoreOf, type Change } from './score.ts'

const change = (file: string, status: string): Change => ({ file, line: 3, status, kind: 'BooleanLiteral', replacement: 'false' })
const changes = [
  change('a/x.ts', 'Killed'),
  change('a/x.ts', 'Timeout'),
  change('a/y.ts', 'Survived'),
  change('b/z.ts', 'NoCoverage'),
  change('b/z.ts', 'CompileError'),
]

it('counts noticed changes among those that could be noticed', () => {
  expect(scoreOf(changes)).toBe(50)
  expect(scoreOf([])).toBe(100)
})

it('prints a score per folder and file, the lowest first', () => {
  expect(formatScores(changes, (file) => file.slice(0, 1)).split('\n')).toEqual([
    ' 66.7 %      3  a',
    '  0.0 %      1    y.ts',
    '100.0 %      2    x.ts',
    '  0.0 %      2  b',
    '  0.0 %      2    z.ts',
  ])
})

it('lists survivors with their place', () => {
  expect(formatSurvivors(changes).split('\n')).toEqual(['a/y.ts:3  BooleanLiteral: false', 'b/z.ts:3  BooleanLiteral (no test): false'])
})
