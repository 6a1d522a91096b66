// `npm test`: the tools the tests need, then everything `npm run check` looks at, then all tests. Files that failed beside
// others are run once more by themselves, and named: real processes that share two cores can starve each other.
// Arguments go to vitest (`npm test -- packages/bus`); then only those tests run.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { runChecks } from './check.ts'
import { environment, root, seconds } from './environment.ts'
import { ensureTestTools } from './test-tools.ts'

const slowestShown = 15
/** More failed files than that have another cause than each other. */
const mostAgain = 12

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

if (!ensureTestTools()) process.exit(1)
const failedChecks = chosen.length === 0 ? await runChecks() : []
const { exitCode, report, alone } = chosen.length === 0 ? await runTwice() : { ...(await runVitest(chosen)), alone: [] }
const counts = summarise(report)
console.log(`\ntotal: ${seconds(performance.now() - started)}`)
if (failedChecks.length > 0) console.log(`failed checks: ${failedChecks.join(', ')}`)
if (exitCode !== 0 && counts.failed === 0) console.log('vitest failed outside of any test, see above')
if (alone.length > 0) console.log(`run a second time, alone: ${alone.join(', ')}`)
if (counts.passed + counts.failed === 0) console.log('no test was run')
console.log(`${counts.passed} passed, ${counts.failed} failed${counts.skipped === 0 ? '' : `, ${counts.skipped} skipped`}`)
const isGood = exitCode === 0 && failedChecks.length === 0 && counts.failed === 0 && counts.passed > 0
process.exitCode = isGood ? 0 : 1

interface Run {
  readonly exitCode: number | null
  readonly report: Report
}

async function runTwice(): Promise<Run & { alone: readonly string[] }> {
  const first = await runVitest([])
  const failed = first.report.testResults.filter(({ status }) => status === 'failed').map(({ name }) => name)
  const names = failed.map((name) => relative(root, name))
  if (failed.length === 0 || failed.length > mostAgain) return { ...first, alone: [] }
  console.log(`\nonce more, alone: ${names.join(', ')}`)
  const second = await runVitest([...names, '--no-file-parallelism', '--retry=0'])
  const kept = first.report.testResults.filter(({ name }) => !failed.includes(name))
  return { exitCode: second.exitCode, report: { testResults: [...kept, ...second.report.testResults] }, alone: names }
}

async function runVitest(args: readonly string[]): Promise<Run> {
  const directory = mkdtempSync(join(tmpdir(), 'muster-report-'))
  const reportFile = join(directory, 'report.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`]
  const child = spawn('vitest', ['run', ...reporters, ...args], { cwd: root, env: environment, stdio: 'inherit' })
  // Ctrl-C reaches vitest too, which then reports how far it got; this process waits for that.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  try {
    const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
    return { exitCode: code, report: readReport(reportFile) }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

function readReport(file: string): Report {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
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
