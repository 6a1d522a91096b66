// What a backend with packages of its own says about how it becomes a directory that needs nothing around it: the field
// `assembly` of its package.json.
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '@muster/host'
import { z } from 'zod'

const File = z.string().regex(/^(?!.*\.\.)[\w@.-]+(?:\/[\w@.-]+)*$/, 'a path below the directory')

export const Assembly = z.strictObject({
  /** Becomes one file, with everything it imports. */
  bundle: z.string(),
  /** What that package reads at run time. */
  keep: z.array(File).default([]),
  /** Modules of that package, and the backend's own that stand in for them. */
  replace: z.record(File, File).default({}),
  /** Packages that are imported and never used: an empty one takes their place. */
  without: z.array(z.string()).default([]),
  /** Imported at run time where they are; those of platforms are there. */
  external: z.array(z.string()).default([]),
  /** `linux-x64`, in Node's words → the package with what is native. */
  platforms: z.record(z.string().regex(/^[a-z0-9]+-[a-z0-9]+$/), z.string()),
})
export type Assembly = z.infer<typeof Assembly>

export interface Assemblable {
  readonly directory: string
  /** Its node_modules has the packages. */
  readonly root: string
  readonly assembly: Assembly
  /** Those whose native package is here, in the order of their names. */
  readonly platforms: readonly { readonly name: string; readonly package: string }[]
  /** Another one when anything that goes in is another. */
  readonly key: string
}

/** Other bytes for the same input: a change of how it is put together. */
const howVersion = 1

/** Null for a backend that is complete as it is. */
export async function readAssembly(directory: string, root: string): Promise<Assemblable | null> {
  const text = await readFile(join(directory, 'package.json'), 'utf8').catch(nullWhenAbsent)
  if (text === null) return null
  const { assembly } = z.object({ assembly: Assembly }).parse(JSON.parse(text))
  const platforms = []
  for (const [name, native] of Object.entries(assembly.platforms).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (await isInstalled(root, native)) platforms.push({ name, package: native })
  }
  return { directory, root, assembly, platforms, key: await keyOf({ directory, root, platforms: platforms.map(({ name }) => name) }) }
}

/** A package that was left out may have an empty one in its place. */
async function isInstalled(root: string, name: string): Promise<boolean> {
  const text = await readFile(join(root, 'node_modules', name, 'package.json'), 'utf8').catch(nullWhenAbsent)
  return text !== null && z.object({ name: z.string() }).parse(JSON.parse(text)).name === name
}

/** The lock file stands for all packages: reading them takes longer than a start may. */
async function keyOf({ directory, root, platforms }: { directory: string; root: string; platforms: readonly string[] }): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify({ howVersion, platforms, zstd: process.versions['zstd'] }))
  hash.update(await readFile(join(root, 'package-lock.json')).catch((error: unknown) => nullWhenAbsent(error) ?? ''))
  for (const path of (await readdir(directory, { recursive: true })).toSorted()) {
    const file = join(directory, path)
    if (!(await stat(file)).isFile()) continue
    const bytes = await readFile(file)
    hash.update(`\0${path}\0${bytes.length}\0`).update(bytes)
  }
  return hash.digest('hex')
}

function nullWhenAbsent(error: unknown): null {
  if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
  throw error
}
