// `npm test`: the tools the tests need, then everything `npm run check` looks at, then all tests.
// Arguments go to vitest (`npm test -- packages/bus`); then only those tests run.
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { runChecks } from './check.ts'
import { environment, root, seconds } from './environment.ts'
import { ensureTestTools } from './test-tools.ts'

const reportFile = join(root, '.cache', 'test-report.json')
const slowestShown = 15

/** The part of vitest's JSON report that is used here. */
interface Report {
  readonly testResults: readonly FileResult[]
}

interface FileResult {
  readonly name: string
  readonly startTime: number
  readonly endTime: number
  readonly status: string
  readonly assertionResults: readonly { readonly fullName: string; readonly status: string; readonly duration?: number | null }[]
}

const started = performance.now()
const chosen = process.argv.slice(2)

if (!(await ensureTestTools())) process.exit(1)
const failedChecks = chosen.length === 0 ? await runChecks() : []
const exitCode = await runVitest(chosen)
const counts = summarise(readReport())
console.log(
  `\n${failedChecks.length === 0 ? '' : `failed checks: ${failedChecks.join(', ')}\n`}total: ${seconds(performance.now() - started)}`,
)
if (counts.passed + counts.failed === 0) console.log('no test was run')
console.log(`${counts.passed} passed, ${counts.failed} failed${counts.skipped === 0 ? '' : `, ${counts.skipped} skipped`}`)
const isGood = exitCode === 0 && failedChecks.length === 0 && counts.failed === 0 && counts.passed > 0
process.exitCode = isGood ? 0 : 1

async function runVitest(args: readonly string[]): Promise<number | null> {
  mkdirSync(join(root, '.cache'), { recursive: true })
  rmSync(reportFile, { force: true })
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`]
  const child = spawn('vitest', ['run', ...reporters, ...args], { cwd: root, env: environment, stdio: 'inherit' })
  // Ctrl-C reaches vitest too, which then reports how far it got; this process waits for that.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  return new Promise((resolve, reject) => child.on('error', reject).on('close', resolve))
}

function readReport(): Report {
  try {
    return JSON.parse(readFileSync(reportFile, 'utf8'))
  } catch {
    return { testResults: [] }
  }
}

function summarise({ testResults }: Report): { passed: number; failed: number; skipped: number } {
  const tests = testResults.flatMap((file) => file.assertionResults)
  printSlowest(
    'tests',
    tests.map((test) => [test.fullName, test.duration ?? 0]),
  )
  printSlowest(
    'files',
    testResults.map((file) => [relative(root, file.name), file.endTime - file.startTime]),
  )
  const count = (...states: string[]): number => tests.filter(({ status }) => states.includes(status)).length
  // A file that could not even be loaded has no tests, and must not look as if it had passed.
  const broken = testResults.filter((file) => file.status === 'failed' && !file.assertionResults.some(({ status }) => status === 'failed'))
  return { passed: count('passed'), failed: count('failed') + broken.length, skipped: count('skipped', 'pending', 'todo', 'disabled') }
}

function printSlowest(what: string, timed: readonly (readonly [name: string, tookMs: number])[]): void {
  if (timed.length === 0) return
  console.log(`\nslowest ${what}`)
  const slowest = timed.toSorted(([, a], [, b]) => b - a).slice(0, slowestShown)
  for (const [name, tookMs] of slowest) console.log(`${seconds(tookMs).padStart(8)}  ${name}`)
}
