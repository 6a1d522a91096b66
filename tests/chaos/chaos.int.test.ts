// The short run of `npm run chaos`: processes are killed at random, and no operation is lost.
import { expect, it } from 'vitest'
import { showViolation, summarize } from './evidence.ts'
import { runChaos } from './run.ts'

/** The same faults each time. Other seeds are tried by `npm run chaos`, which searches for what is not known yet. */
const seed = 11
/** Judged by the second, which only a machine without other tests allows: `npm run chaos` reports them. */
const judgedByTime: readonly string[] = ['replica contradicted', 'model lost', 'process left']

it('I1 I2 I4 I5 I9 I10 I17 S0.35 no accepted operation is lost, carried out twice or shown wrongly while every process is killed', async () => {
  const printed: string[] = []
  const report = await runChaos({
    ...{ seed, durationMs: 14_000, kills: 6, disturbances: 3, clients: 2, submitEveryMs: 800, say: (line) => void printed.push(line) },
    size: { controllers: 3, workers: 4, backends: ['alpha', 'beta'], versions: ['1.0', '2.0'], models: ['red'] },
  })
  const violations = report.violations.filter(({ rule }) => !judgedByTime.includes(rule))
  const told = violations.slice(0, 5).map((violation) => showViolation(violation, report))
  expect(violations, [...printed, ...told, `seed ${seed}`, summarize(report)].join('\n')).toEqual([])
  expect(Object.values(report.kills).reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(4)
  expect(report.accepted).toBeGreaterThan(10)
  expect(report.observed.commands.length).toBeGreaterThan(10)
}, 240_000)
