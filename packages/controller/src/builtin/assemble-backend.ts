// Assembles a backend and its packages into self-contained directories, one per platform, by the field `assembly` of its
// package.json. Reproducible: the result does not depend on place or time.
import { createHash } from 'node:crypto'
import { copyFile, mkdir, readdir, readFile, realpath, stat, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { basename, dirname, join, sep } from 'node:path'
import { z } from 'zod'
import { errorCode } from '@muster/host'

const Package = z.object({ name: z.string(), version: z.string(), license: z.string().default('') })

/** `to`: the target directory of a platform. */
export async function assembleBackend(backend: AssemblyInput, to: (platform: string) => string): Promise<void> {
  const bundle = await bundlePackage(backend)
  const notices = await noticesOf(bundle.packages)
  for (const platform of backend.platforms) {
    const directory = to(platform.name)
    await writeOwn(backend, directory)
    await writeBundle(backend, { bundle, directory })
    await copyTree(join(backend.root, 'node_modules', platform.package), join(directory, 'node_modules', platform.package))
    await writeFile(join(directory, 'THIRD-PARTY-NOTICES'), notices)
  }
}

/** Copies the backend's own files at the top level, without package.json and directories. */
async function writeOwn({ directory }: AssemblyInput, to: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (entry.isFile() && entry.name !== 'package.json') await copy(join(directory, entry.name), join(to, entry.name))
  }
}

async function writeBundle({ root, assembly }: AssemblyInput, { bundle, directory }: { bundle: Bundle; directory: string }): Promise<void> {
  const from = join(root, 'node_modules', assembly.bundle)
  const to = join(directory, 'node_modules', assembly.bundle)
  const { name, version, license } = Package.parse(JSON.parse(await readFile(join(from, 'package.json'), 'utf8')))
  // As deep as the original module, which finds its files by its own path.
  await mkdir(join(to, 'dist'), { recursive: true })
  await writeFile(join(to, 'dist', 'index.js'), bundle.code)
  await writeFile(join(to, 'package.json'), JSON.stringify({ name, version, license, type: 'module', exports: './dist/index.js' }))
  for (const kept of assembly.keep) await copyTree(join(from, kept), join(to, kept))
}

async function copyTree(from: string, to: string): Promise<void> {
  if ((await stat(from)).isFile()) return await copy(from, to)
  for (const name of await readdir(from)) await copyTree(join(from, name), join(to, name))
}

async function copy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true })
  await copyFile(from, to)
}

/** Required by the licenses of the bundled packages. */
async function noticesOf(packages: readonly string[]): Promise<string> {
  const parts = []
  for (const directory of packages) {
    const { name, version, license } = Package.parse(JSON.parse(await readFile(join(directory, 'package.json'), 'utf8')))
    const files = (await readdir(directory)).filter((file) => /^(?:licen[cs]e|copying|notice)/i.test(basename(file))).toSorted()
    const texts = await Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')))
    parts.push({ title: `${name} ${version}`, text: [`${name} ${version} (${license})`, ...texts.map((text) => text.trim())].join('\n\n') })
  }
  const sorted = parts.toSorted((a, b) => (a.title < b.title ? -1 : 1)).map(({ text }) => text)
  return `${sorted.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`
}

interface Bundle {
  readonly code: string
  /** Directories of the bundled packages. */
  readonly packages: readonly string[]
}

const empty = '\0empty.cjs'

/** Bundles a package with everything it imports into one file, which starts several times as fast as hundreds. */
async function bundlePackage({ directory, root, assembly }: AssemblyInput): Promise<Bundle> {
  // Modules are identified by their real path; packages may be linked.
  const own = await realpath(join(root, 'node_modules', assembly.bundle))
  const replaced = new Map(Object.entries(assembly.replace).map(([module, by]) => [join(own, module), join(directory, by)]))
  const unused = new Set(assembly.without)
  // Loaded on demand: most starts find everything assembled.
  const { rolldown } = await import('rolldown')
  await using bundle = await rolldown({
    cwd: root,
    input: await mainOf(own),
    platform: 'node',
    external: [...assembly.external],
    logLevel: 'silent',
    plugins: [
      {
        name: 'assembly',
        resolveId: (id) => (unused.has(id) ? empty : null),
        async load(id) {
          if (id === empty) return 'module.exports = {}'
          const by = replaced.get(id)
          return by === undefined ? null : await readFile(by, 'utf8')
        },
      },
    ],
  })
  const { output } = await bundle.generate({ format: 'esm', codeSplitting: false, comments: false })
  const [chunk] = output
  // An unresolved import would fail only on a node.
  const unresolved = [...chunk.imports, ...chunk.dynamicImports].filter((id) => !isBuiltin(id) && !assembly.external.includes(id))
  if (unresolved.length > 0) throw new Error(`${assembly.bundle} imports packages that are not installed: ${unresolved.join(', ')}`)
  return { code: chunk.code, packages: packagesOf(chunk.moduleIds) }
}

async function mainOf(directory: string): Promise<string> {
  const { main } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8')) as { main?: string }
  return join(directory, main ?? 'index.js')
}

function packagesOf(modules: readonly string[]): string[] {
  const found = modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id.replaceAll(sep, '/'))?.[0] ?? [])
  return [...new Set(found)].toSorted()
}

const File = z.string().regex(/^(?!.*\.\.)[\w@.-]+(?:\/[\w@.-]+)*$/, 'a path below the directory')

const Assembly = z.strictObject({
  /** The package to bundle into one file. */
  bundle: z.string(),
  /** Files that the package reads at run time. */
  keep: z.array(File).default([]),
  /** Modules of the package → the backend's replacements. */
  replace: z.record(File, File).default({}),
  /** Imported packages that are never used: replaced by an empty module. */
  without: z.array(z.string()).default([]),
  /** Packages that stay imports: the native ones of platforms. */
  external: z.array(z.string()).default([]),
  /** `linux-x64`, in Node's terms → the native package. */
  platforms: z.record(z.string().regex(/^[a-z0-9]+-[a-z0-9]+$/), z.string()),
})
type Assembly = z.infer<typeof Assembly>

export interface AssemblyInput {
  readonly directory: string
  /** The directory whose node_modules has the packages. */
  readonly root: string
  readonly assembly: Assembly
  /** Platforms whose native package is installed, by name. */
  readonly platforms: readonly { readonly name: string; readonly package: string }[]
  /** A hash of all inputs. */
  readonly key: string
}

/** Increment when the same input gives other bytes. */
const assemblyVersion = 1

/** Null for a backend without packages. */
export async function readAssembly(directory: string, root: string): Promise<AssemblyInput | null> {
  const text = await readFile(join(directory, 'package.json'), 'utf8').catch(nullWhenAbsent)
  if (text === null) return null
  const { assembly } = z.object({ assembly: Assembly }).parse(JSON.parse(text))
  const platforms = []
  for (const [name, native] of Object.entries(assembly.platforms).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (await isInstalled(root, native)) platforms.push({ name, package: native })
  }
  return { directory, root, assembly, platforms, key: await keyOf({ directory, root, platforms: platforms.map(({ name }) => name) }) }
}

/** An omitted package may have an empty one in its place. */
async function isInstalled(root: string, name: string): Promise<boolean> {
  const text = await readFile(join(root, 'node_modules', name, 'package.json'), 'utf8').catch(nullWhenAbsent)
  return text !== null && z.object({ name: z.string() }).parse(JSON.parse(text)).name === name
}

/** The lock file represents all packages: hashing them would delay the start. */
async function keyOf({ directory, root, platforms }: { directory: string; root: string; platforms: readonly string[] }): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify({ howVersion: assemblyVersion, platforms, zstd: process.versions['zstd'] }))
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
