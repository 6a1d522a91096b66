// Bundles each program that tests start by the hundred into one file: importing a worker's sources costs 1.1 CPU seconds per
// process, its bundle 0.4. Paths that the sources derive from `import.meta` keep pointing at the sources.
import { createHash } from 'node:crypto'
import { globSync, statSync } from 'node:fs'
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { rolldown, type Plugin } from 'rolldown'

const root = join(import.meta.dirname, '..', '..', '..')
const cache = join(root, '.cache', 'test-programs')
const sources = ['packages/*/{src,test}/**/*.ts', 'tests/**/*.ts', 'package-lock.json']

/** Threads are entries too: a bundled program starts the bundled thread. */
const threads = ['packages/worker/src/**/*-thread.ts', 'packages/source/src/**/*-thread-main.ts']
const programs = [
  'packages/cli/src/main.ts',
  'packages/testkit/src/{crashing-worker,crashing-controller,many-workers}.ts',
  'packages/{controller,host,worker}/test/*-{child,process}.ts',
  'tests/**/*-process.ts',
]

/** Returns the directory that `findBundle` looks into. */
export async function bundlePrograms(): Promise<string> {
  const directory = join(cache, hashSources())
  if (await exists(join(directory, 'manifest.json'))) return directory
  const unfinished = `${directory}.${process.pid}`
  const manifest: Record<string, string> = {}
  const entries = globSync([...threads, ...programs], { cwd: root })
  const input = Object.fromEntries(entries.map((path) => [path.replaceAll(/[/.]/g, '_'), join(root, path)]))
  for (const path of Object.values(input)) manifest[path] = bundleName(path)
  await mkdir(unfinished, { recursive: true })
  await using bundle = await rolldown({ cwd: root, input, platform: 'node', logLevel: 'silent', plugins: [keepPaths(manifest, directory)] })
  await bundle.write({ dir: unfinished, format: 'esm', entryFileNames: '[name].mjs', chunkFileNames: 'chunk-[hash].mjs' })
  await writeFile(join(unfinished, 'manifest.json'), JSON.stringify(manifest))
  await removeOthers(basename(directory))
  await rename(unfinished, directory).catch(() => rm(unfinished, { recursive: true })) // Another run finished first.
  return directory
}

/** The bundle of a source file; the file when it has none. */
export async function findBundle(directory: string | undefined, path: string): Promise<string> {
  if (directory === undefined) return path
  const manifest = JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8')) as Record<string, string>
  const bundled = manifest[path]
  return bundled === undefined ? path : join(directory, bundled)
}

/**
 * A plugin of vitest: tests start the bundled threads too, for 0.17 CPU seconds each instead of 0.4. Vitest keeps transformed
 * code between runs, so the code names no directory of this run.
 */
export function startBundledThreads(): Pick<Plugin, 'name'> & { enforce: 'pre'; transform(code: string, id: string): string | null } {
  const bundled = new Set(globSync([...threads], { cwd: root }).map((path) => join(root, path)))
  return {
    name: 'bundled-threads',
    enforce: 'pre',
    transform: (code, id) =>
      replaceThreadUrls(code, (path) => {
        const source = join(dirname(id), path)
        if (!bundled.has(source)) return null
        const [from, name] = [pathToFileURL(source).href, bundleName(source)].map((text) => JSON.stringify(text))
        return `(process.env.TEST_PROGRAMS === undefined ? ${from} : 'file://' + process.env.TEST_PROGRAMS + '/' + ${name})`
      }),
  }
}

/** `replace` gets the path in `new Worker(new URL(path, import.meta.url))` and returns an expression; null keeps it. */
function replaceThreadUrls(code: string, replace: (path: string) => string | null): string | null {
  if (!code.includes('new Worker(new URL(')) return null
  return code.replaceAll(/new URL\('(\.[^']*\.ts)', import\.meta\.url\)/g, (whole: string, path: string) => {
    const replaced = replace(path)
    return replaced === null ? whole : `new URL(${replaced})`
  })
}

const bundleName = (source: string): string => `${relative(root, source).replaceAll(/[/.]/g, '_')}.mjs`

const keepPaths = (manifest: Readonly<Record<string, string>>, directory: string): Plugin => ({
  name: 'keep-paths',
  transform(code, id) {
    if (!code.includes('import.meta.')) return null
    const threaded = replaceThreadUrls(code, (path) => {
      const bundled = manifest[join(dirname(id), path)]
      return bundled === undefined ? null : JSON.stringify(pathToFileURL(join(directory, bundled)).href)
    })
    return (threaded ?? code)
      .replaceAll('import.meta.dirname', JSON.stringify(dirname(id)))
      .replaceAll('import.meta.filename', JSON.stringify(id))
      .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
  },
})

function hashSources(): string {
  const hash = createHash('sha256')
  for (const path of globSync(sources, { cwd: root }).toSorted()) {
    const { mtimeMs, size } = statSync(join(root, path))
    hash.update(`${relative(root, path)} ${mtimeMs} ${size}\n`)
  }
  return hash.digest('hex').slice(0, 16)
}

/** Keeps the newest few, which other runs may be using. */
async function removeOthers(own: string): Promise<void> {
  const found = (await readdir(cache)).filter((name) => /^[0-9a-f]{16}$/.test(name) && name !== own)
  const aged = found.map((name) => [name, statSync(join(cache, name)).mtimeMs] as const).toSorted(([, a], [, b]) => b - a)
  for (const [name] of aged.slice(2)) await rm(join(cache, name), { recursive: true, force: true })
}

async function exists(path: string): Promise<boolean> {
  return await readFile(path).then(
    () => true,
    () => false,
  )
}
