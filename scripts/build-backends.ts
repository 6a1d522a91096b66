// Assembles the backends that need packages, each as a directory that runs by `node` alone (.cache/backends), and packs it.
// Controllers do the same when they start; this script does it beforehand, to inspect or push the result.
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { assembledDirectory, assembleImage, findAssembled } from '../packages/controller/src/builtin/assembled-images.ts'
import { readAssembly } from '../packages/controller/src/builtin/assemble-backend.ts'

const root = join(import.meta.dirname, '..')
const cache = join(root, '.cache', 'backends')
const { signal } = new AbortController()

for (const name of (await readdir(join(root, 'backends'))).toSorted()) {
  const backend = await readAssembly(join(root, 'backends', name), root)
  if (backend === null) continue
  const from = performance.now()
  const found = await findAssembled(backend, cache)
  const made = found ?? (await assembleImage(backend, cache, signal))
  const ms = Math.round(performance.now() - from)
  console.log(`${name} ${made.root} ${found === null ? `assembled in ${ms} ms` : 'is up to date'}`)
  for (const platform of backend.platforms) {
    const directory = assembledDirectory(backend, cache, platform.name)
    console.log(`  ${directory.slice(root.length + 1)}  ${((await bytesIn(directory)) / 1e6).toFixed(1)} MB`)
  }
}

async function bytesIn(directory: string): Promise<number> {
  const files = await readdir(directory, { recursive: true })
  const sizes = await Promise.all(files.map(async (file) => await stat(join(directory, file))))
  return sizes.reduce((total, file) => total + (file.isFile() ? file.size : 0), 0)
}
