import { expect, it } from 'vitest'
import { createSparseLog } from './sparse-log.ts'

function setUp() {
  const said: string[] = []
  return { said, sparse: createSparseLog((reason, count) => void said.push(`${reason} ${count}`)) }
}
const times = (count: number, act: () => void): void => Array.from({ length: count }).forEach(act)

it('logs the 1st, 2nd, 4th, 8th time', () => {
  const { said, sparse } = setUp()
  times(9, () => sparse.report('a'))
  expect(said).toEqual(['a 1', 'a 2', 'a 4', 'a 8'])
})

it('logs a new reason at once, and two alternating ones no more often than one', () => {
  const { said, sparse } = setUp()
  times(3, () => {
    sparse.report('a')
    sparse.report('b')
  })
  expect(said).toEqual(['a 1', 'b 1', 'a 2', 'b 2'])
})

it('begins anew after a reset', () => {
  const { said, sparse } = setUp()
  times(3, () => sparse.report('a'))
  sparse.reset()
  sparse.report('a')
  expect(said).toEqual(['a 1', 'a 2', 'a 1'])
})

it('does not flood the log, nor remember without end, when every reason is another', () => {
  const { said, sparse } = setUp()
  let next = 0
  times(1000, () => sparse.report(`r${next++}`))
  expect(said.length).toBeLessThan(50)
})
