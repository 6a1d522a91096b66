// Runs the tests: `npm test` installs the tools that they need, runs everything of `npm run check`, then all tests.
//   npm test -- packages/bus     only these tests, no checks; arguments go to vitest
//   npm run test:unit            no servers, no processes
//   npm run test:long            every case of the matrices that `npm test` samples
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { runChecks } from './check.ts'
import { environment, makeTestDirectory, removeDirectory, root, seconds } from './environment.ts'
import { ensureTestTools } from './test-tools.ts'

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

interface Counts {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

const started = performance.now()
const args = process.argv.slice(2)
const isUnit = args.includes('--project=unit')

if (!isUnit && !ensureTestTools()) process.exit(1)
const failedChecks = args.length === 0 ? await runChecks() : []
const { exitCode, report } = await runVitest(args)
const counts = summarize(report)
console.log(`\ntotal: ${seconds(performance.now() - started)}`)
if (failedChecks.length > 0) console.log(`failed checks: ${failedChecks.join(', ')}`)
if (exitCode !== 0 && counts.failed === 0) console.log('vitest failed outside of any test, see above')
if (counts.passed + counts.failed === 0) console.log('no test was run')
console.log(`${counts.passed} passed, ${counts.failed} failed${counts.skipped === 0 ? '' : `, ${counts.skipped} skipped`}`)
const isGood = exitCode === 0 && failedChecks.length === 0 && counts.failed === 0 && counts.passed > 0
process.exitCode = isGood ? 0 : 1

async function runVitest(chosen: readonly string[]): Promise<{ readonly exitCode: number | null; readonly report: Report }> {
  const directory = makeTestDirectory()
  const reportFile = join(directory, 'report.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`]
  const env = { NODE_COMPILE_CACHE: join(root, '.cache', 'compiled'), ...environment, TMPDIR: directory }
  const child = spawn('vitest', ['run', ...reporters, ...chosen], { cwd: root, env, stdio: 'inherit' })
  // Ctrl-C reaches vitest too, which then reports its results so far; this process waits for that.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  try {
    const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
    return { exitCode: code, report: readReport(reportFile) }
  } finally {
    removeDirectory(directory)
  }
}

function readReport(file: string): Report {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return { testResults: [] }
  }
}

function summarize({ testResults }: Report): Counts {
  const tests = testResults.flatMap((file) => file.assertionResults)
  const files = testResults.map((file) => [relative(root, file.name), file.endTime - file.startTime] as const)
  if (!isUnit) {
    printSlowest(
      'tests',
      tests.map((test) => [test.fullName, test.duration ?? 0]),
    )
    printSlowest('files', files)
  }
  const count = (...states: string[]): number => tests.filter(({ status }) => states.includes(status)).length
  // A file that could not be loaded has no tests, and must not look as if it had passed.
  const broken = testResults.filter((file) => file.status === 'failed' && !file.assertionResults.some(({ status }) => status === 'failed'))
  return { passed: count('passed'), failed: count('failed') + broken.length, skipped: count('skipped', 'pending', 'todo', 'disabled') }
}

function printSlowest(what: string, timed: readonly (readonly [name: string, tookMs: number])[]): void {
  if (timed.length === 0) return
  console.log(`\nslowest ${what}`)
  const slowest = timed.toSorted(([, a], [, b]) => b - a).slice(0, slowestShown)
  for (const [name, tookMs] of slowest) console.log(`${seconds(tookMs).padStart(8)}  ${name}`)
}
