// Checks files that no linter reads: litter, paths of one machine, and a lock file from which a fresh clone could not be
// installed.
import { globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './environment.ts'

const skipped = new Set(['node_modules', '.git', '.cache', 'dist'])
const binary = /\.(png|jpg|ico|woff2|gguf|gz|tar)$/
const largestBytes = 1_000_000

type Dependencies = Readonly<Record<string, string>>

/** The fields that package.json shares with its entry in package-lock.json. */
interface Manifest {
  readonly dependencies?: Dependencies
  readonly devDependencies?: Dependencies
  readonly optionalDependencies?: Dependencies
}

interface Lock {
  readonly packages: Readonly<Record<string, Manifest & { readonly resolved?: string }>>
}

const lock: Lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
const problems = [...aboutFiles(), ...aboutManifests(), ...aboutTheLock()]
for (const problem of problems) console.log(problem)
process.exitCode = problems.length === 0 ? 0 : 1

function aboutFiles(): string[] {
  return globSync('**/*', { cwd: root, exclude: (name) => skipped.has(name) }).flatMap((path) => {
    const file = statSync(join(root, path))
    if (!file.isFile() || file.size > largestBytes || binary.test(path)) return []
    if (file.size === 0) return [`${path}: is empty`]
    return tracesOfAMachine(readFileSync(join(root, path), 'utf8')).map((trace) => `${path}: ${trace}`)
  })
}

/** `/home/me` and the like stand for anybody; a clone in `/app` says nothing about an `/app` in the text. */
function tracesOfAMachine(text: string): string[] {
  const homes = [...text.matchAll(/\/(?:home|Users)\/(?!me\/|you\/|user\/)[a-z][\w-]*\//g)]
  const traces = homes.map(([home]) => `names somebody's home directory, ${home}`)
  const isTelling = root.split('/').length > 2
  return isTelling && text.includes(`${root}/`) ? [...traces, `names the directory of this clone, ${root}`] : traces
}

function aboutManifests(): string[] {
  const wanted = ({ dependencies, devDependencies, optionalDependencies }: Manifest): string =>
    JSON.stringify(
      [dependencies, devDependencies, optionalDependencies].map((each) =>
        Object.entries(each ?? {}).toSorted(([a], [b]) => a.localeCompare(b)),
      ),
    )
  return globSync(['package.json', 'packages/*/package.json', 'tests/package.json', 'backends/*/package.json'], { cwd: root }).flatMap(
    (path) => {
      const manifest: Manifest = JSON.parse(readFileSync(join(root, path), 'utf8'))
      const locked = lock.packages[path === 'package.json' ? '' : path.replace('/package.json', '')] ?? {}
      return wanted(manifest) === wanted(locked) ? [] : [`${path}: asks for other packages than package-lock.json has: run npm install`]
    },
  )
}

function aboutTheLock(): string[] {
  const names = new Set(Object.keys(lock.packages).map((path) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)))
  return Object.entries(lock.packages).flatMap(([path, entry]) => {
    // The registry is a setting of each machine; version and checksum identify a package.
    const address = entry.resolved?.includes('://') === true ? [`package-lock.json: ${path} names a download address`] : []
    // npm leaves out packages for other systems that it could not find, and npm ci then refuses the whole file.
    const missing = Object.keys(entry.optionalDependencies ?? {}).filter((name) => !names.has(name))
    return [...address, ...missing.map((name) => `package-lock.json: ${name}, for ${path}, is missing`)]
  })
}
