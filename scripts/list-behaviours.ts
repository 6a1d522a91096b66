// Lists the behavior ids of docs/behaviours.md that test names cite, with the files that prove them.
//   node scripts/list-behaviours.ts              every id, with its files
//   node scripts/list-behaviours.ts S0.4 W5      only these ids
//   node scripts/list-behaviours.ts --in DIR     the ids of another checkout, one per line, to compare two versions
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './environment.ts'

const testFiles = ['packages/*/{src,test}/**/*.test.{ts,tsx}', 'tests/**/*.test.ts', 'scripts/**/*.test.ts']
const id = /\b(?:S[0-4]\.[1-9]\d?|W[1-9]\d?|X[1-9]|SEC[1-9]\d?|[A-J][1-9]\d?)\b/g
/** Names are sentences that begin with their ids, alone or as part of a table that a name quotes. */
const name = /(['"`])((?:(?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?,? )+[^\n]*?|[^'"`\n]* (?:I|S[0-4]\.|SEC)[1-9]\d? [^'"`\n]*?)\1/g
/** The first cell of a table whose name begins with `%s`. */
const cell = /\[\s*(['"`])((?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?(?: (?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?)*)\1,/g
const idInPage = /^\| ((?:S[0-4]\.|SEC|[A-JWX])[1-9]\d?) \|/gm

/** Maps each cited id to the test files, in the order of the page. */
export function findCitedIds(directory: string = root): Map<string, string[]> {
  const found = new Map<string, string[]>()
  const files = globSync(testFiles, { cwd: directory, exclude: ['**/node_modules/**'] }).toSorted()
  for (const file of files)
    for (const cited of readCitedIds(readFileSync(join(directory, file), 'utf8'))) found.set(cited, [...(found.get(cited) ?? []), file])
  return new Map([...found].toSorted(([a], [b]) => compareIds(a, b)))
}

export function readCitedIds(source: string): Set<string> {
  return new Set([...source.matchAll(name), ...source.matchAll(cell)].flatMap(([, , text = '']) => text.match(id) ?? []))
}

export function readPageIds(page: string): string[] {
  return [...page.matchAll(idInPage)].map(([, each = '']) => each)
}

function compareIds(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}

if (import.meta.main) {
  const [first, ...rest] = process.argv.slice(2)
  if (first === '--in') for (const each of findCitedIds(rest[0]).keys()) console.log(each)
  else {
    const wanted = new Set(first === undefined ? [] : [first, ...rest])
    for (const [each, files] of findCitedIds())
      if (wanted.size === 0 || wanted.has(each)) console.log(`${each}\n${files.map((file) => `  ${file}`).join('\n')}`)
  }
}
