// The short run of `npm run chaos`: everything is killed, everything is wished, nothing is lost.
import { expect, it } from 'vitest'
import { showViolation, summarise } from './evidence.ts'
import { runChaos } from './run.ts'

const seed = Math.floor(Math.random() * 2 ** 31)

it('I1 I2 I4 I5 I9 I10 I17 S0.35 no accepted wish is lost, done twice or shown falsely while everything is killed', async () => {
  const said: string[] = []
  const report = await runChaos({
    ...{ seed, durationMs: 20_000, kills: 6, clients: 3, wishEveryMs: 1_000, say: (line) => void said.push(line) },
    size: { controllers: 3, workers: 6, backends: ['alpha', 'beta', 'gamma'], versions: ['1.0', '2.0'] },
  })
  const told = report.violations.slice(0, 5).map((violation) => showViolation(violation, report))
  expect(report.violations, [...said, ...told, `seed ${seed}`, summarise(report)].join('\n')).toEqual([])
  expect(Object.values(report.kills).reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(4)
  expect(report.accepted).toBeGreaterThan(10)
  expect(report.observed.orders.length).toBeGreaterThan(10)
}, 240_000)
