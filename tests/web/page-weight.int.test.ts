// The size of the first page in gzip (brotli is smaller).
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { buildPage } from '../../packages/controller/src/page/page-build.ts'

const root = join(import.meta.dirname, '../..')
const limitBytes = 250_000

interface Weight {
  readonly file: string
  readonly bytes: number
}

it('the first page weighs less than 250 kB', async () => {
  const directory = await buildPage({ root, caches: [join(root, '.cache/web')] }, AbortSignal.timeout(60_000))
  const files = await initialFiles(directory)
  const first = await Promise.all(files.map((file) => weigh(directory, file)))
  const all = (await readdir(join(directory, 'assets'))).filter((name) => /\.(js|css)$/.test(name)).map((name) => `/assets/${name}`)
  const lazy = await Promise.all(all.filter((file) => !files.includes(file)).map((file) => weigh(directory, file)))
  const sum = (of: readonly Weight[]): number => of.reduce((total, { bytes }) => total + bytes, 0)
  const largest = lazy.toSorted((a, b) => b.bytes - a.bytes)[0]
  const kB = (bytes: number): string => `${(bytes / 1000).toFixed(1)} kB`
  process.stdout.write(
    `first page ${kB(sum(first))} gzip in ${first.length} files; ${lazy.length} more on demand, ${kB(sum(lazy))}, the largest ${largest?.file} ${kB(largest?.bytes ?? 0)}\n`,
  )
  // Guards against measuring the wrong files.
  expect(files).toEqual(
    expect.arrayContaining(['/index.html', '/before.js', expect.stringMatching(/\.css$/), expect.stringMatching(/index-.*\.js$/)]),
  )
  expect(lazy.length).toBeGreaterThan(5)
  // Tests run with NODE_ENV=test, but their build must be a production build.
  expect([...files, ...all].filter((file) => file.includes('-dev-'))).toEqual([])
  expect(sum(first), first.map(({ file, bytes }) => `${file} ${bytes}`).join('\n')).toBeLessThan(limitBytes)
})

/** The document, the files that it references, and their static imports. */
async function initialFiles(directory: string): Promise<string[]> {
  const html = await readFile(join(directory, 'index.html'), 'utf8')
  const queue = [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].flatMap(([, path]) => (path === undefined ? [] : [path]))
  const found = new Set(['/index.html'])
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (found.has(file)) continue
    found.add(file)
    if (!file.endsWith('.js')) continue
    const code = await readFile(join(directory, file), 'utf8')
    for (const [, , name] of code.matchAll(/(?:^|[;}\s])(?:import|export)\b([^;'"`()]*?\bfrom)?\s*["'`]\.\/([^"'`]+)["'`]/g))
      queue.push(`/assets/${name}`)
  }
  return [...found]
}

const weigh = async (directory: string, file: string): Promise<Weight> => ({
  file,
  bytes: (await stat(join(directory, `${file}.gz`))).size,
})
