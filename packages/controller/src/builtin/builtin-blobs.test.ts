import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { silentLog, systemClock } from '@muster/host'
import { parseBuiltinUri } from '@muster/source'
import { type GalleryView, BackendName, type Digest } from '@muster/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { makeToyClone } from '../../test/toy-backend.ts'
import { createCatalogue, findOffer, unknownBackend } from '../gallery/catalogue.ts'
import { createResolveSource, type ResolveSourceDeps } from '../gallery/resolve-source.ts'
import { packBuiltins, type BuiltinBlobs } from './builtin-blobs.ts'

let directory: string
let backends: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'muster-builtin-'))
  backends = join(directory, 'backends')
})
afterEach(() => rm(directory, { recursive: true, force: true }))

/** Packs this version of one backend; every digest it consists of, that of the gallery first. */
async function pack(version: string): Promise<Digest[]> {
  await mkdir(join(backends, 'echo'), { recursive: true })
  await writeFile(join(backends, 'echo', 'backend.json'), JSON.stringify({ name: 'echo', version }))
  const kept = join(directory, 'kept')
  const { gallery } = await packBuiltins({ backends, directory: kept })
  const read = async (digest: Digest): Promise<string> => await readFile(join(kept, 'blobs', 'sha256', digest.slice(7)), 'utf8')
  const digestIn = (uri: string): Digest => parseBuiltinUri(uri)?.digest as Digest
  const [entry] = JSON.parse(await read(digestIn(gallery.url))) as { uri: string }[]
  const manifest = JSON.parse(await read(digestIn(entry?.uri ?? ''))) as { config: { digest: Digest }; layers: { digest: Digest }[] }
  return [digestIn(gallery.url), digestIn(entry?.uri ?? ''), manifest.config.digest, ...manifest.layers.map(({ digest }) => digest)]
}
const kept = async (): Promise<string[]> =>
  (await readdir(join(directory, 'kept', 'blobs', 'sha256'))).map((name) => `sha256:${name}`).toSorted()

describe('a backend that has to be assembled', () => {
  const platform = (os: string, arch: string) => ({ os, arch })
  const listed = async (builtin: BuiltinBlobs): Promise<{ name: string; uri: string }[]> => {
    const digest = parseBuiltinUri(builtin.gallery.url)?.digest as Digest
    return (await json(builtin.open(digest, { start: 0, end: ((await builtin.size(digest)) ?? 0) - 1 }))) as { name: string; uri: string }[]
  }
  const open = async (): Promise<BuiltinBlobs> => {
    const clone = await makeToyClone(directory)
    return await packBuiltins({ backends: clone.backends, directory: join(directory, 'kept'), cache: join(directory, 'cache') })
  }
  const { signal } = new AbortController()

  it('is offered after assembling, and at once when it was assembled before', async () => {
    const first = await open()
    expect([await listed(first), first.missing()]).toEqual([[], ['toy']])
    await first.complete({ signal, log: silentLog })
    expect(first.missing()).toEqual([])
    const [toy] = await listed(first)
    expect(toy).toMatchObject({ name: 'toy', version: '1', license: 'MIT' })
    expect(await first.size(parseBuiltinUri(toy?.uri ?? '')?.digest as Digest)).toBeGreaterThan(100)
    expect(await listed(await open())).toEqual([toy])
  })

  it('is kept with the blobs when the clone is not writable', async () => {
    const { backends: from } = await makeToyClone(directory)
    await writeFile(join(directory, 'no-directory'), '')
    const places = { backends: from, directory: join(directory, 'kept'), cache: join(directory, 'no-directory', 'cache') }
    const first = await packBuiltins(places)
    await first.complete({ signal, log: silentLog })
    expect(await listed(first)).toMatchObject([{ name: 'toy' }])
    expect(await listed(await packBuiltins(places))).toMatchObject([{ name: 'toy' }])
  })

  it('is not offered, with a log line, when it cannot be assembled', async () => {
    const builtin = await open()
    await rm(join(directory, 'node_modules', 'small'), { recursive: true })
    const lines: string[] = []
    await builtin.complete({ signal, log: { ...silentLog, warn: (message) => lines.push(message) } })
    expect([await listed(builtin), builtin.missing()]).toEqual([[], []])
    expect(lines).toEqual(['cannot assemble backend; it is not offered'])
  })

  it('is unavailable, not unknown, until then', async () => {
    const builtin = await open()
    const { outbound } = {} as Pick<ResolveSourceDeps, 'outbound'>
    const galleries = { list: async () => [] }
    const catalogue = createCatalogue({ galleries, builtin: Promise.resolve(builtin), outbound, stopping: signal, clock: systemClock })
    const before = unknownBackend(await catalogue(), BackendName.parse('toy'))
    expect(before).toMatchObject({
      failure: { retry: 'backoff', message: expect.stringContaining('toy will be offered in a moment') as string },
    })
    await builtin.complete({ signal, log: silentLog })
    expect(await catalogue()).toMatchObject({ problems: [], galleries: [{ entries: [{ name: 'toy' }] }] })
  })

  it('hides the same name in later galleries until then', async () => {
    const builtin = await open()
    const path = join(directory, 'later.yaml')
    await writeFile(path, '- {name: toy, uri: "h/toy:1"}\n- {name: other, uri: "h/other:1"}')
    const later: GalleryView = { name: 'later', url: `file://${path}`, kind: 'backend', from: 'api', created_at: null }
    const { outbound } = {} as Pick<ResolveSourceDeps, 'outbound'>
    const galleries = { list: async () => [later] }
    const catalogue = createCatalogue({ galleries, builtin: Promise.resolve(builtin), outbound, stopping: signal, clock: systemClock })
    const node = { os: 'linux', arch: 'x64', capability: 'default' }
    const offerOf = async (name: string) =>
      findOffer(await catalogue(), { backend: BackendName.parse(name), gallery: null, digest: null, version: null }, node)
    expect(await offerOf('toy')).toMatchObject({ kind: 'unread', reason: expect.stringContaining('builtin comes before later') as string })
    expect(await offerOf('other')).toMatchObject({ kind: 'source' })
    await builtin.complete({ signal, log: silentLog })
    expect(await offerOf('toy')).toMatchObject({ kind: 'source', source: { uri: expect.stringMatching(/^builtin:/) as string } })
  })

  it('is for nodes of its platforms only; others are refused with the list', async () => {
    const builtin = await open()
    await builtin.complete({ signal, log: silentLog })
    const [toy] = await listed(builtin)
    const source = { uri: toy?.uri ?? '', mirrors: [], sha256: '', digest: null }
    const { outbound, oci } = { oci: { reporting: () => oci } } as unknown as Pick<ResolveSourceDeps, 'outbound' | 'oci'>
    const resolve = createResolveSource({ outbound, oci, builtin: Promise.resolve(builtin), clock: systemClock })
    const { digest } = await resolve(source, platform('linux', 'amd64'), signal)
    expect(toy?.uri).toBe(`builtin://toy@${digest}`)
    expect((await resolve(source, platform('linux', 'arm64'), signal)).digest).toBe(digest)
    await expect(resolve(source, platform('darwin', 'arm64'), signal)).rejects.toMatchObject({
      failure: { code: 'incompatible', message: 'toy has nothing for darwin/arm64, only for linux/arm64, linux/amd64' },
    })
  })
})

describe('the blobs of earlier versions', () => {
  it('stay for one more version, however often it starts, and are then removed', async () => {
    const first = await pack('1')
    const second = await pack('2')
    expect(await kept()).toEqual([...first, ...second].toSorted())
    await pack('2')
    expect(await kept()).toEqual([...first, ...second].toSorted())
    const third = await pack('3')
    expect(await kept()).toEqual([...second, ...third].toSorted())
  })

  it('all stay when the previous version is unknown, and other files are left alone', async () => {
    const first = await pack('1')
    const second = await pack('2')
    await writeFile(join(directory, 'kept', 'versions.json'), '{ half')
    await writeFile(join(directory, 'kept', 'blobs', 'sha256', 'README'), 'mine')
    const third = await pack('3')
    expect(await kept()).toEqual([...first, ...second, ...third, 'sha256:README'].toSorted())
    const fourth = await pack('4')
    expect(await kept()).toEqual([...third, ...fourth, 'sha256:README'].toSorted())
  })

  it('are used again when that version returns', async () => {
    const first = await pack('1')
    const second = await pack('2')
    expect(await pack('1')).toEqual(first)
    expect(await kept()).toEqual([...first, ...second].toSorted())
  })
})
