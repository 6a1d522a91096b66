import { describe, expect, it } from 'vitest'
import { namePattern, statesOf } from './run.ts'

describe('the states of the named tests', () => {
  const report = {
    testResults: [
      {
        name: '/tree/a.test.ts',
        assertionResults: [
          { fullName: 'a group is one', status: 'passed' },
          { fullName: 'a group is two', status: 'failed' },
        ],
      },
      { name: '/tree/b.test.ts', assertionResults: [{ fullName: 'is two', status: 'skipped' }] },
    ],
  }

  it.each([
    ['all tests of a file', { file: 'a.test.ts', test: null }, ['passed', 'failed']],
    ['a test by a part of its full name', { file: 'a.test.ts', test: 'group is two' }, ['failed']],
    ['a test of that name in another file', { file: 'b.test.ts', test: 'is two' }, ['skipped']],
    ['a name that no test has', { file: 'a.test.ts', test: 'is three' }, []],
    ['a file that was not run', { file: 'c.test.ts', test: null }, []],
  ])('%s', (_, killer, states) => expect(statesOf(killer, report, '/tree')).toEqual(states))
})

it('names are matched literally', () => {
  const pattern = new RegExp(namePattern([{ file: 'a.test.ts', test: 'is 1.5 (or more)' }]) ?? '')
  expect(['is 1.5 (or more) today', 'is 125 or more'].map((name) => pattern.test(name))).toEqual([true, false])
})

it('a whole file among the tests needs every name', () => {
  const one = { file: 'a.test.ts', test: 'is one' }
  expect(namePattern([one, { file: 'b.test.ts', test: null }])).toBeNull()
  expect(namePattern([one, { file: 'b.test.ts', test: 'two' }])).toMatch(/^\S+\|\S+$/)
})
