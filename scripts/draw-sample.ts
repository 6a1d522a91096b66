// Draws what a review reads, by a seed: 12 behaviors of docs/behaviours.md, 30 source files, 50 log lines, and all texts of the
// web page. A reviewer who names the seed lets others read the same.
//   node_modules/.bin/node scripts/draw-sample.ts --seed 7 [behaviours|files|logs|texts]
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from './environment.ts'

const { values, positionals } = parseArgs({ options: { seed: { type: 'string', default: '1' } }, allowPositionals: true })
const random = createRandom(Number(values.seed))
const parts: Readonly<Record<string, () => readonly string[]>> = {
  behaviours: () => draw(readBehaviours(), 12),
  files: () => draw(listSources(), 30),
  logs: () => draw(listSources().flatMap(readLogLines), 50),
  texts: () => globSync('packages/web/src/**/*.tsx', { cwd: root }).toSorted().filter(isSource).flatMap(readTexts),
}
for (const [name, list] of Object.entries(parts)) {
  // Every part is drawn, so that one part alone shows the same as all of them.
  const drawn = list()
  if (positionals.length > 0 && !positionals.includes(name)) continue
  console.log(`\n${name} (seed ${values.seed})`)
  for (const line of drawn) console.log(line)
}

function readBehaviours(): string[] {
  const page = join(root, 'docs/behaviours.md')
  return existsSync(page)
    ? readFileSync(page, 'utf8')
        .split('\n')
        .filter((line) => /^\|\s*[A-Z]+\d/.test(line))
    : []
}

function listSources(): string[] {
  return globSync(['packages/*/src/**/*.{ts,tsx}', 'backends/*/*.mjs'], { cwd: root }).toSorted().filter(isSource)
}

function isSource(path: string): boolean {
  return !/\.(test|suite)\.tsx?$|packages\/testkit\//.test(path)
}

function readLogLines(path: string): string[] {
  const text = readFileSync(join(root, path), 'utf8')
  return [...text.matchAll(/\blog\.(?:debug|info|warn|error)\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g)].map(
    (match) => `${path}: ${match[2] ?? ''}`,
  )
}

/** Texts between tags, and attributes and strings that read like a phrase. */
function readTexts(path: string): string[] {
  const text = readFileSync(join(root, path), 'utf8').replaceAll(/^\s*(?:\/\/|\*|\/\*).*$|^import .*$/gm, '')
  const between = [...text.matchAll(/>\s*([A-Z][^<>{}=;]*?)\s*</g)].map((match) => match[1] ?? '')
  const quoted = [...text.matchAll(/(['"`])([A-Z][^'"`\n]*?)\1/g)].map((match) => match[2] ?? '')
  return [...new Set([...between, ...quoted])].filter((phrase) => /[a-z]/.test(phrase)).map((phrase) => `${path}: ${phrase}`)
}

/** The first of a shuffled copy, in their own order. */
function draw(all: readonly string[], count: number): string[] {
  const keyed = all.map((each) => ({ each, key: random() })).toSorted((a, b) => a.key - b.key)
  const chosen = new Set(keyed.slice(0, count).map(({ each }) => each))
  return all.filter((each) => chosen.has(each))
}

/** Mulberry32: small, and the same everywhere. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}
