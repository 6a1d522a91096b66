// Reads the planted bugs of this directory. Each *.patch has lines of text, then a unified diff:
//   Mutant: one sentence that says what the planted bug does.
//   Killed-by: packages/bus/src/inbox.test.ts
//   Killed-by: tests/models/load.int.test.ts -t "part of a test's name"
// As a program it checks that every patch is complete, names test files that exist and still applies; part of npm run check.
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root } from '../environment.ts'

/** Tests that must fail with the bug: a whole file, or the tests whose full name contains `test`. */
export interface Killer {
  readonly file: string
  readonly test: string | null
}

export interface Mutant {
  readonly name: string
  readonly patch: string
  readonly sentence: string
  readonly killers: readonly Killer[]
  /** Errors of the header. */
  readonly problems: readonly string[]
}

const killedBy = /^(\S+\.test\.tsx?)(?: -t "(.+)")?$/

export function readMutants(directory: string = import.meta.dirname): Mutant[] {
  return globSync('*.patch', { cwd: directory })
    .toSorted()
    .map((file) => parseMutant(file.slice(0, -'.patch'.length), readFileSync(join(directory, file), 'utf8')))
}

/** Pure. */
export function parseMutant(name: string, patch: string): Mutant {
  const start = patch.search(/^diff --git /m)
  const fields = [...patch.slice(0, Math.max(start, 0)).matchAll(/^(Mutant|Killed-by):[ \t]*(.*?)[ \t]*$/gm)]
  const valuesOf = (key: string): string[] => fields.filter(([, each]) => each === key).map(([, , value = '']) => value)
  const sentences = valuesOf('Mutant').filter((value) => value !== '')
  const named = valuesOf('Killed-by').map((value) => ({ value, match: killedBy.exec(value) }))
  const killers = named.flatMap(({ match }) => (match === null ? [] : [{ file: match[1] ?? '', test: match[2] ?? null }]))
  const problems = [
    ...(start < 0 ? ['has no diff; expected a line "diff --git …" after the header'] : []),
    ...(sentences.length === 1 ? [] : ['needs one line "Mutant: SENTENCE" before the diff']),
    ...(named.length > 0 ? [] : ['needs a line "Killed-by: TEST-FILE" before the diff']),
    ...named.filter(({ match }) => match === null).map(({ value }) => `unreadable "Killed-by: ${value}"; expected TEST-FILE [-t "NAME"]`),
  ]
  return { name, patch, sentence: sentences[0] ?? '', killers, problems }
}

/** Runs `git apply`; returns its reason when the patch does not apply. A tree below another clone is a tree of its own. */
export function applyPatch(mutant: Mutant, tree: string, ...options: readonly string[]): string | null {
  const env = { ...process.env, GIT_CEILING_DIRECTORIES: dirname(tree) }
  const { status, stderr, error } = spawnSync('git', ['apply', ...options, '-'], { cwd: tree, env, input: mutant.patch, encoding: 'utf8' })
  if (error !== undefined) throw new Error('cannot run git; install it', { cause: error })
  return status === 0 ? null : stderr.trim().replaceAll('\n', '; ')
}

export function findMutantProblems(mutant: Mutant, tree: string): string[] {
  const missing = mutant.killers.filter(({ file }) => !existsSync(join(tree, file))).map(({ file }) => `no test file ${file}`)
  const refusal = mutant.problems.length > 0 ? null : applyPatch(mutant, tree, '--check')
  return [...mutant.problems, ...missing, ...(refusal === null ? [] : [`does not apply: ${refusal}`])]
}

if (import.meta.main) {
  const problems = readMutants().flatMap((mutant) =>
    findMutantProblems(mutant, root).map((problem) => `scripts/mutants/${mutant.name}.patch: ${problem}`),
  )
  for (const problem of problems) console.log(problem)
  process.exitCode = problems.length === 0 ? 0 : 1
}
