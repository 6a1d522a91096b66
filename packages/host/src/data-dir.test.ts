import { chmod, chown, mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { defaultDataDir, openDataDir } from './data-dir.ts'
import { Secret } from './secret.ts'
import { temporaryName } from './files.ts'

let base: string
let path: string

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'muster-data-dir-'))
  path = join(base, 'deep/data')
})

afterEach(() => rm(base, { recursive: true, force: true }))

const open = () => openDataDir({ path, role: 'controller' })
const modeOf = async (file: string): Promise<number> => (await stat(file)).mode & 0o777

it.each([
  [{ MUSTER_DATA_DIR: '/x' }, true, '/x'],
  [{ MUSTER_DATA_DIR: '' }, true, '/var/lib/muster'],
  [{}, false, '/home/me/.local/share/muster'],
])('is by default, with %j and root %s, %s', (env, isRoot, want) => {
  expect(defaultDataDir({ env, isRoot, home: '/home/me' })).toBe(want)
})

describe('opening', () => {
  it('makes the directory, closed to others', async () => {
    await using dir = await open()
    expect(dir.root).toBe(path)
    expect(await modeOf(path)).toBe(0o700)
    expect(await modeOf(join(path, 'locks'))).toBe(0o700)
  })

  it.each([
    ['empty', []],
    ['with a configuration file', ['muster.yaml', 'other']],
    ['used before', ['locks/', 'admin.key']],
    ['a fresh file system', ['lost+found/']],
  ])('closes one that was open to others: %s', async (_what, names) => {
    await mkdir(path, { recursive: true })
    for (const name of names) await (name.endsWith('/') ? mkdir(join(path, name)) : writeFile(join(path, name), ''))
    await chmod(path, 0o755)
    await using dir = await open()
    expect(await modeOf(dir.root)).toBe(0o700)
  })

  it('leaves a directory with foreign files alone', async () => {
    await mkdir(path, { recursive: true })
    await writeFile(join(path, 'thesis.tex'), '')
    await chmod(path, 0o755)
    await expect(open()).rejects.toThrow(
      `${path} is open to other users and holds files that are not Muster's: choose an empty directory, or one of Muster's own, with --data-dir`,
    )
    expect(await modeOf(path)).toBe(0o755)
    expect(await readdir(path)).toEqual(['thesis.tex'])
  })

  it.skipIf(process.getuid?.() !== 0)('does not change the mode of a foreign directory', async () => {
    await mkdir(path, { recursive: true })
    await chmod(path, 0o775)
    await chown(path, 65534, 65534)
    await using dir = await open()
    expect(await modeOf(dir.root)).toBe(0o775)
  })

  it('refuses a file', async () => {
    await mkdir(join(base, 'deep'))
    await writeFile(path, '')
    await expect(open()).rejects.toThrow(`cannot use ${path} as the data directory: EEXIST`)
  })

  it('refuses a directory in use, and takes one that was released', async () => {
    const first = await open()
    await expect(open()).rejects.toMatchObject({
      failure: { code: 'conflict', message: expect.stringContaining(`${path} is in use by process ${process.pid} (controller)`) },
    })
    await first.release()
    const second = await open()
    await second.release()
  })

  it('removes half-written files of a crash, but nothing fresh and nothing else', async () => {
    await mkdir(path, { recursive: true })
    const [old, fresh] = [temporaryName(join(path, 'admin.key')), temporaryName(join(path, 'admin.key'))]
    const longAgo = new Date(Date.now() - 120_000)
    for (const file of [old, fresh, join(path, 'mine.tmp')]) await writeFile(file, '')
    for (const file of [old, join(path, 'mine.tmp')]) await utimes(file, longAgo, longAgo)
    await chmod(path, 0o700)
    await using dir = await open()
    expect((await readdir(dir.root)).toSorted()).toEqual([fresh.slice(path.length + 1), 'locks', 'mine.tmp'])
  })
})

describe('files', () => {
  it('are read as they were written; null when absent', async () => {
    await using dir = await open()
    expect(await dir.readFile('endpoint')).toBeNull()
    await dir.writeFile('endpoint', 'http://a')
    await dir.writeFile('endpoint', 'http://b')
    await dir.writeFile('nodes/a/state.json', new TextEncoder().encode('{}'))
    expect(await dir.readFile('endpoint')).toBe('http://b')
    expect(await dir.readFile('nodes/a/state.json')).toBe('{}')
    expect((await readdir(path)).toSorted()).toEqual(['endpoint', 'locks', 'nodes'])
  })

  it('that hold secrets are their owner’s alone, also where an open file was', async () => {
    await using dir = await open()
    await writeFile(dir.path('admin.key'), 'old')
    await chmod(dir.path('admin.key'), 0o666)
    await dir.writeSecret('admin.key', new Secret('new'))
    await dir.writeSecret('join.token', 'token')
    expect(await dir.readFile('admin.key')).toBe('new')
    expect(await modeOf(dir.path('admin.key'))).toBe(0o600)
    expect(await modeOf(dir.path('join.token'))).toBe(0o600)
  })

  it('written at once by several leave one whole file and nothing else', async () => {
    await using dir = await open()
    const texts = Array.from({ length: 10 }, (_, i) => String(i).repeat(100_000))
    await Promise.all(texts.map((text) => dir.writeFile('state', text)))
    expect(texts).toContain(await dir.readFile('state'))
    expect((await readdir(path)).toSorted()).toEqual(['locks', 'state'])
  })

  it('that can’t be written leave the old one and nothing else', async () => {
    await using dir = await open()
    await mkdir(dir.path('taken'))
    await expect(dir.writeFile('taken', 'x')).rejects.toThrow()
    expect((await readdir(path)).toSorted()).toEqual(['locks', 'taken'])
  })

  it.each(['..', '../x', '/etc/passwd', 'a/../../x', '', '.'])('SEC20 are never outside: "%s"', async (name) => {
    await using dir = await open()
    expect(() => dir.path(name)).toThrow('leads out of the data directory')
    await expect(dir.writeFile(name, 'x')).rejects.toThrow('leads out of the data directory')
  })
})
