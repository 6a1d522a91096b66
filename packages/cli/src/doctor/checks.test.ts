import type { Clock } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { fail, ok, renderFindings, runChecks, warn } from './checks.ts'

/** A clock on which every wait is over at once, unless it was given up before. */
const impatient: Clock = { now: () => 0, monotonic: () => 0, sleep: async () => undefined }
const patient: Clock = {
  ...impatient,
  sleep: (_, signal) => new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(new Error('given up')))),
}
const timeoutMs = 6000

describe('runChecks', () => {
  it('runs all at once and keeps their order', async () => {
    const later = Promise.withResolvers<void>()
    const checks = [
      { name: 'a', run: async () => (await later.promise, ok('a')) },
      { name: 'b', run: async () => (later.resolve(), warn('b', 'do')) },
    ]
    expect(await runChecks(checks, { clock: patient, timeoutMs })).toEqual([
      { name: 'a', level: 'ok', found: 'a' },
      { name: 'b', level: 'warn', found: 'b', advice: 'do' },
    ])
  })

  it('does not wait for a check that hangs, and aborts it', async () => {
    let told = false
    const hanging = {
      name: 'hangs',
      run: (signal: AbortSignal) => new Promise<never>(() => signal.addEventListener('abort', () => (told = true))),
    }
    expect(await runChecks([hanging], { clock: impatient, timeoutMs })).toMatchObject([
      { name: 'hangs', level: 'fail', found: 'no result within 6 s' },
    ])
    expect(told).toBe(true)
  })

  it('takes one that throws for a failed one', async () => {
    const broken = { name: 'x', run: async () => Promise.reject(new Error('broken')) }
    expect(await runChecks([broken], { clock: patient, timeoutMs })).toMatchObject([
      { level: 'fail', found: 'the check itself failed: broken' },
    ])
  })
})

describe('renderFindings', () => {
  it('prints the remedy below the finding, and ends with a summary', () =>
    expect(
      renderFindings(
        [
          { name: 'disk', ...fail('full', 'make room') },
          { name: 'a', ...ok('fine') },
        ],
        { colors: false },
      ),
    ).toBe(['fail  disk  full', '              → make room'.slice(2), 'ok    a     fine', '', '1 of 2 checks failed.'].join('\n')))

  it.each([
    [[warn('a', 'b'), ok('c')], 'No check failed; 1 of 2 have warnings.'],
    [[ok('a'), ok('b')], 'All 2 checks passed.'],
  ])('sums up %j', (verdicts, want) =>
    expect(
      renderFindings(
        verdicts.map((verdict, at) => ({ name: String(at), ...verdict })),
        { colors: false },
      )
        .split('\n')
        .at(-1),
    ).toBe(want),
  )
})
