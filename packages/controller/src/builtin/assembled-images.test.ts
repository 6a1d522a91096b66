import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { makeToyClone } from '../../test/toy-backend.ts'
import { assembleImage, assembledDirectory, findAssembled } from './assembled-images.ts'
import { readAssembly, type AssemblyInput } from './assemble-backend.ts'

const { signal } = new AbortController()
let directory: string
let cache: string
let clone: Awaited<ReturnType<typeof makeToyClone>>
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'muster-assemble-'))
  cache = join(directory, 'cache')
  clone = await makeToyClone(join(directory, 'clone'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

async function toy({ root, toy: at } = clone): Promise<AssemblyInput> {
  const backend = await readAssembly(at, root)
  if (backend === null) throw new Error('the toy has packages')
  return backend
}
const run = async (at: string, platform: string): Promise<unknown> => {
  const { stdout } = await promisify(execFile)(process.execPath, ['server.mjs', platform], { cwd: at })
  return JSON.parse(stdout)
}

describe('an assembled backend', () => {
  it('runs in any directory with node alone, with the native package of its platform', async () => {
    const backend = await toy()
    expect(backend.platforms.map(({ name }) => name)).toEqual(['linux-arm64', 'linux-x64'])
    await assembleImage(backend, cache, signal)
    const elsewhere = join(directory, 'elsewhere')
    await cp(assembledDirectory(backend, cache, 'linux-x64'), elsewhere, { recursive: true })
    await rm(clone.root, { recursive: true })
    expect(await run(elsewhere, 'linux-x64')).toEqual({ large: 'undefined', isTested: false, small: 'small', native: 'x64' })
    expect(await readdir(elsewhere, { recursive: true })).toEqual(
      expect.arrayContaining(['node_modules/engine/data/words.txt', 'backend.json']),
    )
  })

  it('contains only the needed files, and the licenses of the bundled packages', async () => {
    const backend = await toy()
    await assembleImage(backend, cache, signal)
    const at = assembledDirectory(backend, cache, 'linux-arm64')
    const found = (await readdir(at, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
    expect(found.map(({ name }) => name).toSorted()).toEqual(
      ['THIRD-PARTY-NOTICES', 'backend.json', 'index.js', 'index.js', 'package.json', 'package.json', 'server.mjs', 'words.txt'].toSorted(),
    )
    const notices = await readFile(join(at, 'THIRD-PARTY-NOTICES'), 'utf8')
    expect(notices).toMatch(/^engine 1.2.3 \(MIT\)\n\ndo what you like\n\n-+\n\nsmall 1.2.3 \(MIT\)\n\nbe nice\n$/)
    expect(await readFile(join(at, 'node_modules/engine/dist/index.js'), 'utf8')).not.toContain(directory)
  })

  it('is reproducible', async () => {
    const first = await assembleImage(await toy(), cache, signal)
    const other = await makeToyClone(join(directory, 'another', 'place'))
    await utimes(join(other.root, 'node_modules/engine/dist/index.js'), 1, 1)
    const second = await assembleImage(await toy(other), join(directory, 'other-cache'), signal)
    expect(second.root).toBe(first.root)
  })

  it('is one index with an image per platform', async () => {
    const { root, layout } = await assembleImage(await toy(), cache, signal)
    const index: unknown = JSON.parse(await readFile(layout.pathOf(root), 'utf8'))
    expect(index).toMatchObject({
      manifests: [{ platform: { os: 'linux', architecture: 'arm64' } }, { platform: { os: 'linux', architecture: 'amd64' } }],
    })
  })
})

describe('an assembled image', () => {
  it('is found again until an input changes', async () => {
    expect(await findAssembled(await toy(), cache)).toBeNull()
    const { root } = await assembleImage(await toy(), cache, signal)
    expect(await findAssembled(await toy(), cache)).toMatchObject({ root })
    await writeFile(join(clone.toy, 'server.mjs'), 'console.log(1)')
    expect(await findAssembled(await toy(), cache)).toBeNull()
    const next = await assembleImage(await toy(), cache, signal)
    expect(next.root).not.toBe(root)
    expect(await run(assembledDirectory(await toy(), cache, 'linux-x64'), 'linux-x64')).toBe(1)
    // A node may be half way through the one before.
    expect(await readFile(next.layout.pathOf(root), 'utf8')).toContain('schemaVersion')
  })

  it.each([
    ['a locked version', (root: string) => writeFile(join(root, 'package-lock.json'), '{"packages":{}}')],
    ['a platform', (root: string) => rm(join(root, 'node_modules/@native/linux-arm64'), { recursive: true })],
  ])('changes with another %s', async (_, change) => {
    await assembleImage(await toy(), cache, signal)
    await change(clone.root)
    expect(await findAssembled(await toy(), cache)).toBeNull()
  })

  it.each([
    ['a blob', async ({ layout, root }: Awaited<ReturnType<typeof assembleImage>>) => await rm(layout.pathOf(root))],
    ['the directory', async () => await rm(join(cache, 'toy-linux-x64'), { recursive: true })],
    ['half the record', async () => await writeFile(join(cache, 'toy.json'), '{"key"')],
  ])('is assembled again when %s is lost', async (_, lose) => {
    const made = await assembleImage(await toy(), cache, signal)
    await lose(made)
    expect(await findAssembled(await toy(), cache)).toBeNull()
    expect((await assembleImage(await toy(), cache, signal)).root).toBe(made.root)
    expect(await findAssembled(await toy(), cache)).not.toBeNull()
  })

  it('is complete when two controllers assemble it at once, and leaves no temporary files', async () => {
    const backend = await toy()
    const both = await Promise.all([assembleImage(backend, cache, signal), assembleImage(backend, cache, signal)])
    expect(both[0].root).toBe(both[1].root)
    expect(await findAssembled(backend, cache)).not.toBeNull()
    const old = join(cache, '.abcdefghijklmnopqrst.tmp')
    await mkdir(old)
    await utimes(old, 1, 1)
    await assembleImage(backend, cache, signal)
    expect((await readdir(cache)).toSorted()).toEqual(['images', 'toy-linux-arm64', 'toy-linux-x64', 'toy.json'])
  })
})

describe('a package.json', () => {
  it.each([
    ['no assembly', {}, /assembly/],
    ['a path that leads out', { bundle: 'engine', platforms: {}, keep: ['../x'] }, /below the directory/],
    ['an unknown field', { bundle: 'engine', platforms: {}, minify: true }, /minify/],
  ])('is refused with %s', async (_, assembly, reason) => {
    await writeFile(join(clone.toy, 'package.json'), JSON.stringify(Object.keys(assembly).length === 0 ? {} : { assembly }))
    await expect(toy()).rejects.toThrow(reason)
  })
})
