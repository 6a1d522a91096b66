import { expect, it } from 'vitest'
import { parseMutant } from './patch.ts'

const diff = 'diff --git a/a.ts b/a.ts\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n'

it('reads the sentence and the tests of a patch', () => {
  const header = 'Mutant: a is b.\nKilled-by: packages/a/src/a.test.ts\nKilled-by: tests/a/b.int.test.ts -t "a (and b) is "c""\n\n'
  expect(parseMutant('a-is-b', header + diff)).toEqual({
    name: 'a-is-b',
    patch: header + diff,
    sentence: 'a is b.',
    killers: [
      { file: 'packages/a/src/a.test.ts', test: null },
      { file: 'tests/a/b.int.test.ts', test: 'a (and b) is "c"' },
    ],
    problems: [],
  })
})

it.each([
  ['without Killed-by', `Mutant: a is b.\n\n${diff}`, /^needs a line "Killed-by: TEST-FILE"/],
  ['whose Killed-by stands behind the diff', `Mutant: a is b.\n\n${diff}Killed-by: a.test.ts\n`, /^needs a line "Killed-by: TEST-FILE"/],
  ['whose Killed-by is no test file', `Mutant: a is b.\nKilled-by: packages/a\n\n${diff}`, /^unreadable "Killed-by: packages\/a"/],
  [
    'with other options of vitest',
    `Mutant: a is b.\nKilled-by: a.test.ts --bail\n\n${diff}`,
    /^unreadable "Killed-by: a\.test\.ts --bail"/,
  ],
  ['without a sentence', `Mutant:\nKilled-by: a.test.ts\n\n${diff}`, /^needs one line "Mutant: SENTENCE"/],
  ['with two sentences', `Mutant: a.\nMutant: b.\nKilled-by: a.test.ts\n\n${diff}`, /^needs one line "Mutant: SENTENCE"/],
])('refuses a patch %s', (_, patch, problem) => {
  expect(parseMutant('a', patch).problems).toEqual([expect.stringMatching(problem)])
})

it('refuses a patch without a diff', () => {
  expect(parseMutant('a', 'Mutant: a is b.\nKilled-by: a.test.ts\n').problems).toContainEqual(expect.stringMatching(/^has no diff/))
})
