// Static checks. `npm run check` runs all of them, `npm run check -- lint types` only the named parts.
import { spawn } from 'node:child_process'
import { environment, root, seconds } from './environment.ts'

// The longest first: two at a time, they end together.
const parts: Readonly<Record<string, readonly [program: string, ...args: string[]]>> = {
  types: ['tsc', '-p', '.'],
  'types-web': ['tsc', '-p', 'packages/web'],
  unused: ['knip'],
  lint: ['oxlint'],
  files: ['node', 'scripts/check-files.ts'],
  format: ['oxfmt', '--check'],
  words: ['node', 'scripts/check-words.ts'],
  mutants: ['node', 'scripts/mutants/patch.ts'],
  behaviours: ['node', 'scripts/list-behaviours.ts', '--check'],
}
const atATime = 2

interface Outcome {
  readonly name: string
  readonly passed: boolean
  readonly tookMs: number
}

/** Prints failures as they occur and a line per part at the end; returns the names of the failed parts. */
export async function runChecks(names: readonly string[] = Object.keys(parts)): Promise<string[]> {
  const waiting = [...names]
  const outcomes: Outcome[] = []
  const work = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) outcomes.push(await runPart(name))
  }
  await Promise.all(Array.from({ length: atATime }, work))
  for (const { name, passed, tookMs } of outcomes)
    console.log(`${passed ? 'ok    ' : 'FAILED'}  ${name.padEnd(10)}${seconds(tookMs).padStart(7)}`)
  return outcomes.filter(({ passed }) => !passed).map(({ name }) => name)
}

async function runPart(name: string): Promise<Outcome> {
  const [program, ...args] = parts[name] ?? unknownPart(name)
  const started = performance.now()
  let output = ''
  const code = await new Promise<number | null>((resolve, reject) => {
    const child = spawn(program, args, { cwd: root, env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text))
    child.on('error', reject).on('close', resolve)
  })
  if (code !== 0) console.log(`\n${name}: ${[program, ...args].join(' ')}\n${output.trimEnd()}\n`)
  return { name, passed: code === 0, tookMs: performance.now() - started }
}

function unknownPart(name: string): never {
  console.error(`unknown part "${name}"; expected ${Object.keys(parts).join(', ')}`)
  process.exit(2)
}

if (import.meta.main) {
  const names = process.argv.slice(2)
  const failed = await runChecks(names.length === 0 ? undefined : names)
  process.exitCode = failed.length === 0 ? 0 : 1
}
