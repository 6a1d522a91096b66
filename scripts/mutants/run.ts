// Plants the bugs of this directory, each alone in a copy of the tree, and expects the tests that its patch names to fail.
//   npm run mutants              every patch
//   npm run mutants -- NAME …    only these
// The named tests must pass without any patch. A survivor, or a patch that does not apply, fails the run.
import { spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { delimiter, join, relative } from 'node:path'
import { copyTree } from '../copy-tree.ts'
import { environment, makeTestDirectory, removeDirectory, root, seconds } from '../environment.ts'
import { ensureTestTools } from '../test-tools.ts'
import { applyPatch, findMutantProblems, readMutants, type Killer, type Mutant } from './patch.ts'

/** One copy of the tree each: the machines of developers have a few cores, and tests measure time. */
const lanes = 2
const mutantLimitMs = 300_000
const baselineLimitMs = 1_800_000
const graceMs = 15_000

/** The part of vitest's JSON report that is used here. */
export interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

interface TestRun {
  readonly report: Report
  readonly output: string
  readonly isInTime: boolean
}

interface Outcome {
  readonly kind: 'killed' | 'survived' | 'does not apply'
  readonly reason: string
}

/** The states of the tests that a killer names. */
export function statesOf(killer: Killer, report: Report, tree: string): string[] {
  return report.testResults
    .filter(({ name }) => relative(tree, name) === killer.file)
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ fullName }) => killer.test === null || fullName.includes(killer.test))
    .map(({ status }) => status)
}

/** Vitest takes one pattern of names for all its files: null when a whole file is among them. */
export function namePattern(killers: readonly Killer[]): string | null {
  const names = killers.flatMap(({ test }) => (test === null ? [] : [RegExp.escape(test)]))
  return names.length < killers.length ? null : names.join('|')
}

const show = ({ file, test }: Killer): string => (test === null ? file : `${file} -t "${test}"`)

async function runTests(tree: string, killers: readonly Killer[], signal: AbortSignal): Promise<TestRun> {
  const directory = makeTestDirectory()
  const reportFile = join(directory, 'report.json')
  const pattern = namePattern(killers)
  const args = ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`]
  if (pattern !== null) args.push('-t', pattern)
  if (killers.length === 1) args.push('--bail=1')
  const path = [join(tree, 'node_modules', '.bin'), environment['PATH'] ?? ''].join(delimiter)
  const env = { ...environment, PATH: path, TMPDIR: directory, NODE_COMPILE_CACHE: join(tree, '.cache', 'compiled') }
  const child = spawn('vitest', [...args, ...new Set(killers.map(({ file }) => file))], { cwd: tree, env, detached: true })
  const stop = (): void => stopGroup(child)
  signal.addEventListener('abort', stop)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  try {
    await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve))
    return { report: readReport(reportFile), output, isInTime: !signal.aborted }
  } finally {
    signal.removeEventListener('abort', stop)
    removeDirectory(directory)
  }
}

/** Vitest stops its servers after a signal; a group that hangs is killed. */
function stopGroup(child: ChildProcess): void {
  child.kill('SIGTERM')
  const timer = setTimeout(() => {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  }, graceMs)
  child.on('close', () => clearTimeout(timer))
}

function readReport(file: string): Report {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { testResults: [] }
}

/** Returns the named tests that do not pass in a clean tree. */
async function checkBaseline(tree: string, mutants: readonly Mutant[], interrupted: AbortSignal): Promise<string[]> {
  const killers = mutants.flatMap((mutant) => mutant.killers)
  const whole = killers.filter(({ test }) => test === null)
  const parts = killers.filter(({ file, test }) => test !== null && !whole.some((each) => each.file === file))
  const problems: string[] = []
  for (const named of [whole, parts].filter(({ length }) => length > 0)) {
    const signal = AbortSignal.any([interrupted, AbortSignal.timeout(baselineLimitMs)])
    const { report, output, isInTime } = await runTests(tree, named, signal)
    if (!isInTime)
      return [interrupted.aborted ? 'all; the run was interrupted' : `all; they did not end within ${seconds(baselineLimitMs)}`]
    const covered = killers.filter(({ file }) => named.some((each) => each.file === file))
    const failed = covered.filter((killer) => !passes(statesOf(killer, report, tree))).map(show)
    if (failed.length > 0) console.log(output.slice(-10_000))
    problems.push(...failed)
  }
  return [...new Set(problems)]
}

const passes = (states: readonly string[]): boolean => states.includes('passed') && !states.includes('failed')

async function runMutant(tree: string, mutant: Mutant, interrupted: AbortSignal): Promise<Outcome> {
  const refusal = applyPatch(mutant, tree)
  if (refusal !== null) return { kind: 'does not apply', reason: refusal }
  const outcome = await judgeMutant(tree, mutant, interrupted)
  const left = applyPatch(mutant, tree, '--reverse')
  if (left !== null) throw new Error(`cannot take back ${mutant.name}: ${left}`)
  return outcome
}

/** A file that cannot be loaded proves nothing about its tests, so a test has to fail. */
async function judgeMutant(tree: string, mutant: Mutant, interrupted: AbortSignal): Promise<Outcome> {
  const signal = AbortSignal.any([interrupted, AbortSignal.timeout(mutantLimitMs)])
  const { report, output, isInTime } = await runTests(tree, mutant.killers, signal)
  if (!isInTime) return { kind: 'survived', reason: `The tests did not end within ${seconds(mutantLimitMs)}.` }
  if (report.testResults.every(({ assertionResults }) => assertionResults.length === 0))
    return { kind: 'survived', reason: `No test was run.\n${output.slice(-2000)}` }
  const passed = mutant.killers.filter((killer) => !statesOf(killer, report, tree).includes('failed')).map(show)
  return passed.length === 0 ? { kind: 'killed', reason: '' } : { kind: 'survived', reason: `No failure in ${passed.join(' and ')}.` }
}

async function runAll(trees: readonly string[], mutants: readonly Mutant[], interrupted: AbortSignal): Promise<Outcome[]> {
  const [waiting, outcomes] = [[...mutants], [] as Outcome[]]
  const work = async (tree: string): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined && !interrupted.aborted; mutant = waiting.shift()) {
      const started = performance.now()
      const outcome = await runMutant(tree, mutant, interrupted)
      outcomes.push(outcome)
      const took = seconds(performance.now() - started).padStart(8)
      const detail = outcome.kind === 'killed' ? '' : `: ${mutant.sentence} ${outcome.reason}`
      console.log(`${(outcome.kind === 'killed' ? 'killed' : outcome.kind.toUpperCase()).padEnd(8)}${took}  ${mutant.name}${detail}`)
    }
  }
  await Promise.all(trees.map(work))
  return outcomes
}

function chooseMutants(names: readonly string[]): Mutant[] {
  const all = readMutants()
  const wanted = new Set(names.map((name) => name.replace(/^.*\//, '').replace(/\.patch$/, '')))
  const unknown = [...wanted].filter((name) => !all.some((mutant) => mutant.name === name))
  if (unknown.length > 0) throw new Error(`no patch ${unknown.join(', ')} in scripts/mutants`)
  return wanted.size === 0 ? all : all.filter(({ name }) => wanted.has(name))
}

async function main(names: readonly string[], interrupted: AbortSignal): Promise<boolean> {
  const chosen = chooseMutants(names)
  const problems = new Map(chosen.map((mutant) => [mutant, findMutantProblems(mutant, root)]))
  const mutants = chosen.filter((mutant) => problems.get(mutant)?.length === 0)
  for (const [{ name }, found] of problems) for (const problem of found) console.log(`${name}: ${problem}`)
  if (!ensureTestTools()) return false
  mkdirSync(join(root, '.cache'), { recursive: true })
  const directory = mkdtempSync(join(root, '.cache', 'mutants-'))
  chmodSync(directory, 0o711) // PostgreSQL runs as another user.
  process.on('exit', () => removeDirectory(directory))
  const trees = Array.from({ length: Math.min(lanes, mutants.length) }, (_, lane) => join(directory, String(lane)))
  for (const tree of trees) copyTree(tree)
  const failing = trees[0] === undefined ? [] : await checkBaseline(trees[0], mutants, interrupted)
  for (const test of failing) console.log(`fails without any patch: ${test}`)
  const outcomes = failing.length > 0 ? [] : await runAll(trees, mutants, interrupted)
  const count = (kind: Outcome['kind']): number => outcomes.filter((outcome) => outcome.kind === kind).length
  const broken = chosen.length - mutants.length + count('does not apply')
  console.log(`${count('killed')} killed, ${count('survived')} survived, ${broken} do not apply`)
  return failing.length === 0 && count('killed') === chosen.length
}

if (import.meta.main) {
  const interruption = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interruption.abort())
  process.exitCode = (await main(process.argv.slice(2), interruption.signal)) ? 0 : 1
}
