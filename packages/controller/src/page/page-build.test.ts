// The web UI of a tiny clone whose "compiler" is a few lines: tests when it is called, and its result.
import { mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeTempDir, waitFor } from '@muster/testkit'
import { silentLog, systemClock } from '@muster/host'
import { expect, it } from 'vitest'
import { buildPage } from './page-build.ts'
import { startPage } from './page.ts'

/** Counts its runs, and makes a page out of the one source. */
const compiler = `
  import { existsSync } from 'node:fs'
  import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises'
  const [directory] = process.argv.slice(2)
  const source = await readFile(new URL('src/main.ts', import.meta.url), 'utf8')
  await mkdir(directory, { recursive: true })
  await appendFile(new URL('../../runs', import.meta.url), 'run\\n')
  if (source.includes('wrong')) { console.error('main.ts: this is wrong'); process.exit(1) }
  if (source.includes('slow')) await new Promise((resolve) => setTimeout(resolve, 300))
  while (source.includes('held') && !existsSync(new URL('../../go', import.meta.url))) await new Promise((resolve) => setTimeout(resolve, 10))
  for (const end of ['', '.br', '.gz']) await writeFile(directory + '/index.html' + end, source)
`

async function makeClone(source: string) {
  const directory = await makeTempDir('clone')
  const root = directory.path
  const write = async (path: string, text: string): Promise<void> => {
    await mkdir(join(root, path, '..'), { recursive: true })
    await writeFile(join(root, path), text)
  }
  await write('packages/web/build.ts', compiler)
  await write('packages/web/src/main.ts', source)
  for (const path of ['package-lock.json', 'packages/web/package.json', 'packages/web/index.html', 'packages/web/vite.config.ts'])
    await write(path, '{}')
  await write('packages/web/public/mark.svg', '<svg/>')
  await write('packages/protocol/src/index.ts', 'export {}')
  const cache = join(root, '.cache/web')
  const deps = { root, caches: [cache] }
  return {
    ...{ deps, cache, write },
    build: (signal = new AbortController().signal) => buildPage(deps, signal),
    runs: async () => (await readFile(join(root, 'runs'), 'utf8').catch(() => '')).split('\n').length - 1,
    builds: () => readdir(cache),
    [Symbol.asyncDispose]: () => directory.remove(),
  }
}
const pageIn = (directory: string): Promise<string> => readFile(join(directory, 'index.html'), 'utf8')

it('is built once, and found again', async () => {
  await using clone = await makeClone('one')
  const directory = await clone.build()
  expect(await pageIn(directory)).toBe('one')
  expect(await clone.build()).toBe(directory)
  expect([await clone.runs(), (await clone.builds()).length]).toEqual([1, 1])
})

it.each([
  'packages/web/src/main.ts',
  'packages/web/public/mark.svg',
  'packages/web/vite.config.ts',
  'packages/protocol/src/index.ts',
  'package-lock.json',
])('is rebuilt when %s changes', async (path) => {
  await using clone = await makeClone('one')
  const before = await clone.build()
  await clone.write(path, 'two')
  expect(await clone.build()).not.toBe(before)
  expect(await clone.runs()).toBe(2)
})

it('is not rebuilt for a test', async () => {
  await using clone = await makeClone('one')
  const before = await clone.build()
  await clone.write('packages/web/src/main.test.ts', 'two')
  expect([await clone.build(), await clone.runs()]).toEqual([before, 1])
})

it('two controllers that build at once share one result', async () => {
  await using clone = await makeClone('slow')
  const [one, other] = await Promise.all([clone.build(), clone.build()])
  expect(one).toBe(other)
  expect(await pageIn(one)).toBe('slow')
  expect(await clone.builds()).toHaveLength(1)
})

it('a failed build reports the message of the compiler, leaves no files, and is retried', async () => {
  await using clone = await makeClone('wrong')
  await expect(clone.build()).rejects.toThrow(/cannot build the web UI.*main\.ts: this is wrong/s)
  expect(await clone.builds()).toEqual([])
  await clone.write('packages/web/src/main.ts', 'right')
  expect(await pageIn(await clone.build())).toBe('right')
})

it('a controller that stops does not wait for its page', async () => {
  await using clone = await makeClone('slow')
  const stop = new AbortController()
  const building = clone.build(stop.signal)
  await waitFor(async () => (await clone.runs()) === 1, { what: 'the build to begin' })
  stop.abort()
  await expect(building).rejects.toThrow('cannot build the web UI')
  expect(await clone.builds()).toEqual([])
})

it('the last three builds are kept, and leftovers of a killed build are removed', async () => {
  await using clone = await makeClone('0')
  const long = new Date(0)
  await mkdir(join(clone.cache, 'unfinished-old'), { recursive: true })
  await utimes(join(clone.cache, 'unfinished-old'), long, long)
  const made: string[] = []
  for (let round = 0; round < 4; round += 1) {
    await clone.write('packages/web/src/main.ts', String(round))
    const directory = await clone.build()
    // A disk's clock may be too coarse to tell them apart.
    await utimes(directory, new Date(1_000 * (round + 1)), new Date(1_000 * (round + 1)))
    made.push(directory)
  }
  await clone.write('packages/web/src/main.ts', 'last')
  made.push(await clone.build())
  expect((await clone.builds()).map((name) => join(clone.cache, name)).toSorted()).toEqual(made.slice(-3).toSorted())
})

it('is built in the next cache when the first is not writable', async () => {
  await using clone = await makeClone('one')
  await clone.write('file', '')
  const { signal } = new AbortController()
  const caches = [join(clone.deps.root, 'file', 'web'), clone.cache]
  const directory = await buildPage({ ...clone.deps, caches }, signal)
  expect(directory.startsWith(clone.cache)).toBe(true)
  expect(await pageIn(directory)).toBe('one')
  const nowhere = buildPage({ ...clone.deps, caches: caches.slice(0, 1) }, signal)
  await expect(nowhere).rejects.toThrow('ENOTDIR')
})

it('a running build is not removed by others that finish meanwhile', async () => {
  await using clone = await makeClone('held')
  const building = clone.build()
  await waitFor(async () => (await clone.runs()) === 1, { what: 'the build to begin' })
  for (let round = 0; round < 4; round += 1) {
    await clone.write('packages/web/src/main.ts', String(round))
    await clone.build()
  }
  await clone.write('go', '')
  expect(await pageIn(await building)).toBe('held')
})

it('is building, then built', async () => {
  await using clone = await makeClone('one')
  const { signal } = new AbortController()
  const page = startPage({ ...clone.deps, signal, clock: systemClock, log: silentLog })
  expect(page()).toEqual({ state: 'building' })
  await waitFor(() => page().state === 'built', { what: 'the page' })
})

it('reports a failure, and is retried automatically', async () => {
  await using clone = await makeClone('wrong')
  const { signal } = new AbortController()
  const pause = Promise.withResolvers<void>()
  const page = startPage({ ...clone.deps, signal, clock: { ...systemClock, sleep: () => pause.promise }, log: silentLog })
  await waitFor(() => page().state !== 'building', { what: 'the failure' })
  expect(page()).toMatchObject({ state: 'failed', message: expect.stringContaining('this is wrong') })
  await clone.write('packages/web/src/main.ts', 'right')
  pause.resolve()
  await waitFor(() => page().state === 'built', { what: 'the page' })
})
