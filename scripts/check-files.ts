// What no linter looks at: traces of one machine in files that go to all of them, and litter.
import { globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './environment.ts'

const skipped = new Set(['node_modules', '.git', '.cache', 'dist'])
const binary = /\.(png|jpg|ico|woff2|gguf|gz|tar)$/
const largestBytes = 1_000_000

const problems: string[] = []
for (const path of globSync('**/*', { cwd: root, exclude: (name) => skipped.has(name) })) {
  const file = join(root, path)
  const size = statSync(file).isFile() ? statSync(file).size : null
  if (size === 0) problems.push(`${path}: is empty`)
  if (size === null || size === 0 || size > largestBytes || binary.test(path)) continue
  problems.push(...tracesOfAMachine(readFileSync(file, 'utf8')).map((trace) => `${path}: ${trace}`))
}
problems.push(...downloadAddresses(readFileSync(join(root, 'package-lock.json'), 'utf8')).map((trace) => `package-lock.json: ${trace}`))

for (const problem of problems) console.log(problem)
process.exitCode = problems.length === 0 ? 0 : 1

/** `/home/me` and the like stand for anybody. */
function tracesOfAMachine(text: string): string[] {
  const homes = [...text.matchAll(/\/(?:home|Users)\/(?!me\/|you\/|user\/)[a-z][\w-]*\//g)].map(
    ([home]) => `names somebody's home directory, ${home}`,
  )
  return text.includes(`${root}/`) ? [...homes, `names the directory of this clone, ${root}`] : homes
}

/** A lock file names packages by version and checksum; where they come from is each machine's own setting. */
function downloadAddresses(lock: string): string[] {
  return [...lock.matchAll(/"resolved": "(\w+:\/\/[^"]*)"/g)].map(([, address]) => `names a download address, ${address}`)
}
