// Lists the behavior ids of docs/behaviours.md that test names cite, and keeps the list of these names, so that no proof
// vanishes unnoticed.
//   node scripts/list-behaviours.ts              every id, with its files
//   node scripts/list-behaviours.ts S0.4 W5      only these ids
//   node scripts/list-behaviours.ts --in DIR     the ids of another checkout, one per line, to compare two versions
//   node scripts/list-behaviours.ts --check      fails when the list and the tests differ; part of npm run check
//   node scripts/list-behaviours.ts --write      adds new names to the list
//   node scripts/list-behaviours.ts --write --because REASON   also records that names are gone or changed, and why
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './environment.ts'

const listFile = 'tests/repository/proven-behaviours.txt'
const removalsFile = 'tests/repository/removed-behaviours.txt'
const listHeader = `# Test names by behavior id. Generated: node scripts/list-behaviours.ts --write`
const removalsHeader = `# Test names that were in ${listFile} and are gone or changed: id | test name | reason`
const howToRemove = 'restore the test, or run node scripts/list-behaviours.ts --write --because "REASON"'

const testFiles = ['packages/*/{src,test}/**/*.test.{ts,tsx}', 'packages/*/test/**/*suite.ts', 'tests/**/*.test.ts', 'scripts/**/*.test.ts']
/** The test of this file has names that no test proves. */
const notRead = ['**/node_modules/**', 'scripts/list-behaviours.test.ts']
const id = /\b(?:S[0-4]\.[1-9]\d?|W[1-9]\d?|X[1-9]|SEC[1-9]\d?|[A-J][1-9]\d?)\b/g
const leadingIds = /^(?:(?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?,? )+/
/** Names are sentences that begin with their ids, alone or as part of a table that a name quotes. */
const name = /(['"`])((?:(?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?,? )+[^\n]*?|[^'"`\n]* (?:I|S[0-4]\.|SEC)[1-9]\d? [^'"`\n]*?)\1/g
/** The first cell of a table whose name begins with `%s`, and the second cell if it is a text. */
const cell = /\[\s*(['"`])((?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?(?: (?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?)*)\1,(?:\s*(['"`])([^\n]*?)\3)?/g
const idInPage = /^\| ((?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?) \|/gm

/** Maps each cited id to the test files, in the order of the page. */
export function findCitedIds(directory: string = root): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const [file, source] of readTests(directory))
    for (const cited of readCitedIds(source)) found.set(cited, [...(found.get(cited) ?? []), file])
  return new Map([...found].toSorted(([a], [b]) => compareEntries(a, b)))
}

function readTests(directory: string): [file: string, source: string][] {
  const files = globSync(testFiles, { cwd: directory, exclude: notRead }).toSorted()
  return files.map((file) => [file, readFileSync(join(directory, file), 'utf8')])
}

export function readCitedIds(source: string): Set<string> {
  return new Set([...source.matchAll(name), ...source.matchAll(cell)].flatMap(([, , text = '']) => text.match(id) ?? []))
}

/** One `id | test name` for each id of each name. */
export function readProofs(source: string): string[] {
  const names = [...source.matchAll(name)].map(([, , text = '']) => ({ ids: text, text: text.replace(leadingIds, '') }))
  const cells = [...source.matchAll(cell)].map(([, , ids = '', , text = '']) => ({ ids, text }))
  return [...names, ...cells].flatMap(({ ids, text }) => (ids.match(id) ?? []).map((each) => `${each} | ${text}`))
}

export function readPageIds(page: string): string[] {
  return [...page.matchAll(idInPage)].map(([, each = '']) => each)
}

function compareEntries(a: string, b: string): number {
  const [[idOfA = '', ...nameOfA], [idOfB = '', ...nameOfB]] = [a.split(' | '), b.split(' | ')]
  const byId = idOfA.localeCompare(idOfB, 'en', { numeric: true })
  if (byId !== 0 || a === b) return byId
  return nameOfA.join() < nameOfB.join() ? -1 : 1
}

type Proofs = Readonly<{
  /** `id | test name` of the tests in the tree. */
  found: readonly string[]
  /** The lines of the list, and lines that an earlier version of the list had: an old copy of the list must not hide a loss. */
  listed: readonly string[]
  listedBefore: readonly string[]
  /** `id | test name | reason` */
  removals: readonly string[]
}>

/** Compares the tests with the list. Pure. `list` is the next list: a name that is gone without a reason stays in it. */
export function compareProofs({ found, listed, listedBefore, removals }: Proofs): { list: string[]; gone: string[]; problems: string[] } {
  const [inTree, inList] = [new Set(found), new Set(listed)]
  const reasons = new Map(removals.map((line) => splitRemoval(line)))
  const added = [...inTree].filter((entry) => !inList.has(entry))
  const gone = [...new Set([...listed, ...listedBefore])]
    .filter((entry) => !inTree.has(entry) && !reasons.get(entry))
    .toSorted(compareEntries)
  const renamed = (entry: string): string => {
    const candidates = added.filter((each) => idOf(each) === idOf(entry))
    return candidates.length === 0 ? '' : ` (new with this id: ${candidates.map((each) => `"${each}"`).join(', ')})`
  }
  const problems = [
    ...gone.map((entry) => `"${entry}": no test has this name any more${renamed(entry)}; ${howToRemove}`),
    ...added.map((entry) => `"${entry}": missing in ${listFile}; run node scripts/list-behaviours.ts --write`),
    ...[...reasons].filter(([, reason]) => !reason).map(([entry]) => `"${entry}": no reason in ${removalsFile}; add " | REASON"`),
    ...[...reasons.keys()]
      .filter((entry) => inTree.has(entry))
      .map((entry) => `"${entry}": a test has this name; delete it from ${removalsFile}`),
  ]
  return { list: [...new Set([...found, ...gone])].toSorted(compareEntries), gone, problems }
}

const idOf = (entry: string): string => entry.split(' | ', 1).join()

function splitRemoval(line: string): [entry: string, reason: string] {
  const [first = '', ...rest] = line.split(' | ')
  return rest.length < 2 ? [line, ''] : [[first, ...rest.slice(0, -1)].join(' | '), rest.at(-1)?.trim() ?? '']
}

function readProofsOfTree(): Proofs {
  return {
    found: readTests(root).flatMap(([, source]) => readProofs(source)),
    listed: readLines(listFile),
    listedBefore: readHistory(),
    removals: readLines(removalsFile),
  }
}

function readLines(file: string): string[] {
  const path = join(root, file)
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
}

/** Every line that a commit added to the list; none without git. */
function readHistory(): string[] {
  const args = ['log', '--format=', '--first-parent', '-m', '-p', '--unified=0', '--no-color', '--no-ext-diff', '--', listFile]
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 256 * 1024 * 1024 })
  if (status !== 0) return []
  return [...stdout.matchAll(/^\+((?:S[0-4]\.|SEC|[A-JWX])[1-9]\d? \| .*)$/gm)].map(([, line = '']) => line)
}

function writeProofs(because: string | undefined): string[] {
  const before = readProofsOfTree()
  const removals = [
    ...before.removals,
    ...(because === undefined ? [] : compareProofs(before).gone.map((entry) => `${entry} | ${because}`)),
  ]
  const { list } = compareProofs({ ...before, removals })
  writeFileSync(join(root, listFile), `${[listHeader, ...list].join('\n')}\n`)
  writeFileSync(join(root, removalsFile), `${[removalsHeader, ...removals.toSorted(compareEntries)].join('\n')}\n`)
  return compareProofs(readProofsOfTree()).problems
}

function reportProblems(problems: readonly string[]): void {
  for (const problem of problems) console.log(problem)
  process.exitCode = problems.length === 0 ? 0 : 1
}

function printIds(ids: readonly string[]): void {
  for (const [each, files] of findCitedIds())
    if (ids.length === 0 || ids.includes(each)) console.log(`${each}\n${files.map((file) => `  ${file}`).join('\n')}`)
}

if (import.meta.main) {
  const [first, ...rest] = process.argv.slice(2)
  if (first === '--in') for (const each of findCitedIds(rest[0]).keys()) console.log(each)
  else if (first === '--check') reportProblems(compareProofs(readProofsOfTree()).problems)
  else if (first === '--write') reportProblems(writeProofs(rest[0] === '--because' ? rest[1] : undefined))
  else printIds(process.argv.slice(2))
}
