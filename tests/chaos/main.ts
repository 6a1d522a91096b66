// `npm run chaos -- [--seed N] [--minutes M] [--kills K]`: the long run. Ends with 1 on a violation, after telling what was
// seen; everything else that was seen is in the directory that it names.
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { showViolation, summarize } from './evidence.ts'
import { runChaos, type ChaosReport } from './run.ts'

const { values } = parseArgs({
  options: { seed: { type: 'string' }, minutes: { type: 'string', default: '10' }, kills: { type: 'string', default: '60' } },
})
const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed)
const durationMs = Number(values.minutes) * 60_000
const kills = Number(values.kills)
if (![seed, durationMs, kills].every((number) => Number.isFinite(number) && number >= 0)) {
  print('use: npm run chaos -- [--seed N] [--minutes M] [--kills K]')
  process.exit(2)
}

const report = await runChaos({
  ...{ seed, durationMs, kills, disturbances: Math.round(kills / 2), clients: 2, submitEveryMs: 2_500, say: print },
  size: {
    ...{ controllers: 3, workers: 6, models: ['red', 'green', 'blue'] },
    ...{ backends: ['alpha', 'beta', 'gamma', 'delta'], versions: ['1.0', '2.0', '3.0'] },
  },
})
for (const violation of report.violations.slice(0, 20)) print(`\n${showViolation(violation, report)}`)
if (report.violations.length > 0) print(`\neverything that was seen: ${await keep(report)}`)
print(`\nseed ${seed}\n${summarize(report)}`)
process.exit(report.violations.length === 0 ? 0 : 1)

async function keep({ outputs, ...seen }: ChaosReport): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), `chaos-${seed}-`))
  await writeFile(join(directory, 'seen.json'), JSON.stringify(seen, null, 1))
  for (const [name, output] of Object.entries(outputs)) await writeFile(join(directory, `${name}.log`), output)
  return directory
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
