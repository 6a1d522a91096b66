import { appendFile, chmod, mkdir, open, readdir, readFile, rename, rm, stat, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { BackendName, Digest, failureOf } from '@muster/protocol'
import { gnuLong, layerFrom, layerOf, pax, sha256, tar, waitFor, zstdWithWindow, type Layer, type TarEntry } from '@muster/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  backendLayer,
  layersOf,
  makeTestStore,
  never,
  recordOf,
  runSh,
  snapshot,
  streamOf,
  treeOf,
  type TestStore,
} from '../../test/test-store.ts'

let tested: TestStore
beforeEach(async () => {
  tested = await makeTestStore()
})
afterEach(() => tested[Symbol.asyncDispose]())

const file = (path: string, data = path): TarEntry => ({ path, data })
const hex = (digest: string): string => digest.slice('sha256:'.length)
const treeFiles = (layers: readonly Layer[]): Promise<Record<string, string>> => snapshot(tested.store.treePath(treeOf(layers)))
const failureOfPromise = async (work: Promise<unknown>): Promise<ReturnType<typeof failureOf>> =>
  failureOf(await work.catch((error: unknown) => error))
const noise = (bytes: number): Buffer => {
  const made = Buffer.alloc(bytes)
  for (let at = 0, x = 1; at + 4 <= bytes; at += 4) made.writeUInt32LE((x = Math.imul(x, 1_664_525) + 1_013_904_223) >>> 0, at)
  return made
}

describe('blobs', () => {
  const big = layerOf(tar([runSh, { path: 'big', data: noise(3_000_000) }]), 'none')
  const digest = Digest.parse(big.digest)

  it('become blobs once their hash is verified', async () => {
    const seen: number[] = []
    const send = async (offset: number): Promise<{ stream: Readable; offset: number }> => ({ stream: streamOf(big.bytes, offset), offset })
    await tested.store.fetchBlob({ digest, size: big.size, open: send }, { signal: never, onBytes: (bytes) => seen.push(bytes) })
    expect(seen[0]).toBe(0)
    expect(seen.at(-1)).toBe(big.size)
    expect(sha256(await readFile(join(tested.root, 'blobs/sha256', hex(digest))))).toBe(digest)
    expect(await readdir(join(tested.root, 'incoming'))).toEqual([])
    expect(await tested.store.hasBlob(digest)).toBe(true)
  })

  it('E7 a truncated download keeps its bytes and is resumed', async () => {
    const cut = async (): Promise<{ stream: Readable; offset: number }> => ({
      stream: streamOf(big.bytes.subarray(0, 1_000_000)),
      offset: 0,
    })
    expect(await failureOfPromise(tested.store.fetchBlob({ digest, size: big.size, open: cut }, { signal: never }))).toMatchObject({
      code: 'unavailable',
      retry: 'backoff',
    })
    expect(await tested.store.incomingSize(digest)).toBe(1_000_000)
    let asked = -1
    const rest = async (offset: number): Promise<{ stream: Readable; offset: number }> => {
      asked = offset
      return { stream: streamOf(big.bytes, offset), offset }
    }
    await tested.store.fetchBlob({ digest, size: big.size, open: rest }, { signal: never })
    expect(asked).toBe(1_000_000)
    expect(await tested.store.hasBlob(digest)).toBe(true)
  })

  it('are written from the start when the server ignores the range', async () => {
    await writeFile(join(tested.root, 'incoming', hex(digest)), big.bytes.subarray(0, 500_000))
    await tested.store.fetchBlob(
      { digest, size: big.size, open: async () => ({ stream: streamOf(big.bytes), offset: 0 }) },
      { signal: never },
    )
    expect(await tested.store.hasBlob(digest)).toBe(true)
  })

  it('are not requested when every byte was received, and are still verified', async () => {
    const ask = (): never => {
      throw new Error('asked')
    }
    await writeFile(join(tested.root, 'incoming', hex(digest)), big.bytes)
    await tested.store.fetchBlob({ digest, size: big.size, open: async () => ask() }, { signal: never })
    expect(await tested.store.hasBlob(digest)).toBe(true)
    await rename(join(tested.root, 'blobs/sha256', hex(digest)), join(tested.root, 'incoming', hex(digest)))
    await tested.store.fetchBlob({ digest, size: null, open: async () => ask() }, { signal: never })
    expect(await tested.store.hasBlob(digest)).toBe(true)
  })

  it('E3 E8 are fetched from the start, once, when the bytes of an earlier try are wrong', async () => {
    const asked: number[] = []
    const path = join(tested.root, 'incoming', hex(digest))
    const wrong = Buffer.from(big.bytes).fill(0x7f, 2_000_000, 2_000_001)
    const send =
      (bytes: Buffer) =>
      async (offset: number): Promise<{ stream: Readable; offset: number }> => {
        asked.push(offset)
        return { stream: streamOf(bytes, offset), offset }
      }
    await writeFile(path, Buffer.alloc(1000, 1))
    const refused = tested.store.fetchBlob({ digest, size: big.size, open: send(wrong) }, { signal: never })
    expect(await failureOfPromise(refused)).toMatchObject({ code: 'integrity', retry: 'backoff' })
    await writeFile(path, Buffer.alloc(1000, 1))
    await tested.store.fetchBlob({ digest, size: big.size, open: send(big.bytes) }, { signal: never })
    expect(asked).toEqual([1000, 0, 1000, 0])
    expect(await tested.store.hasBlob(digest)).toBe(true)
  })

  it.each([
    ['E8 a byte that is not right', (bytes: Buffer) => bytes.fill(0x7f, 2_000_000, 2_000_001)],
    ['H15 more bytes than were said', (bytes: Buffer) => Buffer.concat([bytes, bytes])],
  ])('%s removes it, and it is never a blob', async (_name, change) => {
    const sent = change(Buffer.from(big.bytes))
    const send = async (offset: number): Promise<{ stream: Readable; offset: number }> => ({ stream: streamOf(sent, offset), offset })
    expect(await failureOfPromise(tested.store.fetchBlob({ digest, size: big.size, open: send }, { signal: never }))).toMatchObject({
      code: 'integrity',
      retry: 'backoff',
    })
    expect(await readdir(join(tested.root, 'incoming'))).toEqual([])
    expect(await tested.store.hasBlob(digest)).toBe(false)
  })

  it('W10 cancelled during a stalled stream stop at once and keep their bytes', async () => {
    const stalled = new Readable({ read() {} })
    stalled.push(big.bytes.subarray(0, 100_000))
    const abort = new AbortController()
    const fetching = tested.store.fetchBlob(
      { digest, size: big.size, open: async () => ({ stream: stalled, offset: 0 }) },
      { signal: abort.signal },
    )
    await waitFor(async () => (await tested.store.incomingSize(digest)) === 100_000, { what: 'the first bytes' })
    const reason = new Error('not wanted any more')
    abort.abort(reason)
    await expect(fetching).rejects.toBe(reason)
    expect(stalled.destroyed).toBe(true)
    expect(await tested.store.incomingSize(digest)).toBe(100_000)
  })

  it('E18 requested by many callers are fetched once', async () => {
    let opened = 0
    const send = async (offset: number): Promise<{ stream: Readable; offset: number }> => {
      opened++
      return { stream: streamOf(big.bytes, offset), offset }
    }
    await Promise.all(Array.from({ length: 50 }, () => tested.store.fetchBlob({ digest, size: big.size, open: send }, { signal: never })))
    expect(opened).toBe(1)
  })
})

describe('trees', () => {
  it('merge layers: later ones replace, hide and add entries', async () => {
    const layers = [
      layerOf(
        tar([
          { path: './', type: '5' },
          runSh,
          file('a/kept'),
          file('a/gone'),
          file('a/changed', 'old'),
          file('b/x'),
          file('b/deep/y'),
          file('c/1'),
          file('was-file'),
        ]),
      ),
      layerOf(
        tar([
          file('a/.wh.gone', ''),
          file('a/changed', 'new'),
          file('b/.wh..wh..opq', ''),
          file('b/z'),
          file('.wh.c', ''),
          { path: 'was-file/', type: '5' },
          file('was-file/now'),
        ]),
        'zstd',
      ),
      layerOf(tar([file('c/2'), { path: 'l', type: '2', linkPath: 'a/kept' }, { path: 'h', type: '1', linkPath: 'a/changed' }]), 'none'),
    ]
    const summary = await tested.install(layers)
    const found = await treeFiles(layers)
    expect(Object.keys(found)).toEqual(['a', 'a/changed', 'a/kept', 'b', 'b/z', 'c', 'c/2', 'h', 'l', 'run.sh', 'was-file', 'was-file/now'])
    expect(found).toMatchObject({ 'a/changed': '644 new', h: '644 new', l: '-> a/kept', 'run.sh': '755 #!/bin/sh\n' })
    expect(summary).toMatchObject({ entries: 12, backend: null, collisions: [] })
    expect(await tested.store.verify(treeOf(layers), { signal: never })).toBe('intact')
  })

  it.each([
    ['before', [file('d/.wh..wh..opq', ''), file('d/own')]],
    ['after', [file('d/own'), file('d/.wh..wh..opq', '')]],
  ])('H13 an opaque mark hides lower layers only, %s what its own layer brings', async (_when, pieces) => {
    const layers = [layerOf(tar([runSh, file('d/lower'), file('d/sub/lower')])), layerOf(tar(pieces))]
    await tested.install(layers)
    expect(Object.keys(await treeFiles(layers))).toEqual(['d', 'd/own', 'run.sh'])
  })

  it('H13 whiteouts of missing entries are ignored', async () => {
    const layers = [layerOf(tar([runSh, file('no/.wh.such', ''), file('.wh.thing', '')]))]
    await tested.install(layers)
    expect(Object.keys(await treeFiles(layers))).toEqual(['run.sh'])
  })

  it('H8 a later layer replaces a link with a directory, and nothing is written to the target of the link', async () => {
    const layers = [
      layerOf(tar([runSh, file('e/kept'), { path: 'd', type: '2', linkPath: 'e' }])),
      layerOf(tar([{ path: 'd/', type: '5' }, file('d/f')])),
    ]
    await tested.install(layers)
    expect(Object.keys(await treeFiles(layers))).toEqual(['d', 'd/f', 'e', 'e/kept', 'run.sh'])
  })

  it('H11 SEC15 have no setuid, setgid or sticky bits, and nothing writable by others', async () => {
    const modes: TarEntry[] = [
      { path: 'suid', data: '', mode: 0o4755 },
      { path: 'sgid', data: '', mode: 0o2755 },
      { path: 'open', data: '', mode: 0o777 },
      { path: 'none', data: '', mode: 0 },
      { path: 'tmp/', type: '5', mode: 0o1777 },
      { path: 'closed/', type: '5', mode: 0 },
    ]
    const layers = [layerOf(tar([runSh, ...modes, file('closed/in')]))]
    await tested.install(layers)
    expect(await treeFiles(layers)).toMatchObject({
      suid: '755 ',
      sgid: '755 ',
      open: '755 ',
      none: '400 ',
      tmp: 'directory 755',
      closed: 'directory 700',
    })
  })

  it('H9 names that differ only in case or composition are kept apart and reported', async () => {
    const layers = [layerOf(tar([runSh, file('A/x'), file('a/x'), file('\u00e9'), file('e\u0301'), file('line\u2028break\n')]))]
    const { collisions } = await tested.install(layers)
    expect(collisions).toEqual(['A and a', '\u00e9 and e\u0301'])
    expect(await treeFiles(layers)).toMatchObject({ 'A/x': '644 A/x', 'a/x': '644 a/x', '\u00e9': '644 \u00e9' })
    expect(await tested.store.verify(treeOf(layers), { signal: never })).toBe('intact')
  })

  it('E24 long names are read from PAX, GNU and the prefix of a header', async () => {
    const long = `${'d'.repeat(120)}/${'n'.repeat(200)}`
    const layers = [
      layerOf(
        tar([
          runSh,
          pax({ path: `pax/${long}` }),
          file('x', '1'),
          gnuLong('L', `gnu/${long}`),
          file('x', '2'),
          { path: 'name', prefix: 'in/prefix', data: '3' },
        ]),
      ),
    ]
    await tested.install(layers)
    expect(await treeFiles(layers)).toMatchObject({ [`pax/${long}`]: '644 1', [`gnu/${long}`]: '644 2', 'in/prefix/name': '644 3' })
  })

  const archive = tar([runSh, { path: 'data', data: noise(1_500_000) }])
  const third = Math.floor(archive.length / 3)
  const thirds = [archive.subarray(0, third), archive.subarray(third, 2 * third), archive.subarray(2 * third)]
  const skippable = Buffer.concat([Buffer.from([0x5f, 0x2a, 0x4d, 0x18, 4, 0, 0, 0]), Buffer.from('skip')])
  it.each([
    ['H14 of several gzip members', 'gzip', Buffer.concat(thirds.map((each) => gzipSync(each)))],
    [
      'H14 of several zstd frames, some skippable',
      'zstd',
      Buffer.concat([skippable, ...thirds.flatMap((each) => [zstdCompressSync(each), skippable])]),
    ],
    [
      'H14 with a zstd window of 8 MB',
      'zstd',
      Buffer.concat(
        Array.from({ length: Math.ceil(archive.length / 100_000) }, (_, at) =>
          zstdWithWindow(archive.subarray(at * 100_000, (at + 1) * 100_000), 23),
        ),
      ),
    ],
  ] as const)('%s are read to their end', async (_name, compression, bytes) => {
    const layers = [layerFrom(bytes, { archive, compression })]
    await tested.install(layers)
    expect(sha256(await readFile(join(tested.store.treePath(treeOf(layers)), 'data')))).toBe(sha256(noise(1_500_000)))
  })

  it('have the description of their backend.json', async () => {
    const description = { name: 'echo', version: '2.1', driver: 'openai-http', command: ['{node}', 'server.js', '--addr', '{addr}'] }
    const { backend } = await tested.install([layerOf(tar([file('backend.json', JSON.stringify(description)), file('server.js')]))])
    expect(backend).toEqual({ ...description, health_path: '/health', env: {} })
  })

  it('W10 cancelled while unpacking leave nothing behind', async () => {
    const abort = new AbortController()
    const reason = new Error('superseded')
    const again = await tested.reopen({ step: (name) => (name === 'W.unpack.mid' ? abort.abort(reason) : undefined) })
    const layers = [layerOf(tar([runSh, { path: 'big', data: noise(20_000_000) }]), 'none')]
    await expect(again.install(layers, { signal: abort.signal })).rejects.toBe(reason)
    expect(await readdir(join(again.root, 'staging'))).toEqual([])
    expect(await again.store.summary(treeOf(layers))).toBeNull()
  })

  it('report progress by packed bytes, up to the total', async () => {
    const layers = [backendLayer('1'), layerOf(tar([{ path: 'big', data: noise(5_000_000) }]))]
    for (const layer of layers) await tested.put(layer)
    const seen: (readonly [number, number])[] = []
    await tested.store.unpack(treeOf(layers), layersOf(layers), { signal: never, onProgress: (...each) => seen.push(each) })
    const total = layers.reduce((sum, { size }) => sum + size, 0)
    expect(seen.at(-1)).toEqual([total, total])
    expect(seen.map(([current]) => current)).toEqual(seen.map(([current]) => current).toSorted((a, b) => a - b))
  })

  it('with a layer damaged on disk fail as damaged, so that the layer is fetched again', async () => {
    const layers = [backendLayer('1')]
    await tested.put(backendLayer('1'))
    const path = join(tested.root, 'blobs/sha256', hex(layers[0]?.digest ?? ''))
    await truncate(path, 20)
    const failure = await failureOfPromise(tested.store.unpack(treeOf(layers), layersOf(layers), { signal: never }))
    expect(failure).toMatchObject({ code: 'integrity', retry: 'backoff' })
    expect(failure.message).toContain('damaged on this disk')
    await tested.install(layers)
    expect(await tested.store.verify(treeOf(layers), { signal: never })).toBe('intact')
  })
})

describe('repair', () => {
  const layers = [layerOf(tar([runSh, file('lib/a'), file('lib/b'), { path: 'l', type: '2', linkPath: 'lib/a' }]))]
  const damages: readonly (readonly [string, (tree: string, outside: string) => Promise<unknown>])[] = [
    ['a changed file', (tree) => appendFile(join(tree, 'lib/a'), 'x')],
    ['a changed file of the same size', (tree) => writeFile(join(tree, 'lib/a'), 'lib/X')],
    ['a missing file', (tree) => rm(join(tree, 'lib/b'))],
    ['a missing directory', (tree) => rm(join(tree, 'lib'), { recursive: true })],
    ['a missing tree', (tree) => rm(tree, { recursive: true })],
    ['a file that is not executable any more', (tree) => chmod(join(tree, 'run.sh'), 0o644)],
    ['a setuid bit', (tree) => chmod(join(tree, 'run.sh'), 0o4755)],
    [
      'a link that points elsewhere',
      async (tree) => {
        await rm(join(tree, 'l'))
        await symlink('/etc', join(tree, 'l'))
      },
    ],
    [
      'a directory that became a link',
      async (tree, outside) => {
        await rm(join(tree, 'lib'), { recursive: true })
        await symlink(outside, join(tree, 'lib'))
      },
    ],
    [
      'a file that became a directory',
      async (tree) => {
        await rm(join(tree, 'lib/a'))
        await mkdir(join(tree, 'lib/a/b'), { recursive: true })
      },
    ],
    ['a manifest that is cut off', (tree) => truncate(join(tree, '../manifest'), 300)],
    ['a manifest that is gone', (tree) => rm(join(tree, '../manifest'))],
  ]
  it('S3.16 extra files of a running backend are no damage, and are removed when the tree is repaired', async () => {
    await tested.install(layers)
    const before = await treeFiles(layers)
    const tree = tested.store.treePath(treeOf(layers))
    await mkdir(join(tree, 'lib/__pycache__'))
    await writeFile(join(tree, 'lib/__pycache__/a.pyc'), 'compiled')
    expect(await tested.store.verify(treeOf(layers), { signal: never })).toBe('intact')
    await tested.install(layers, { onExisting: 'repair' })
    expect(await treeFiles(layers)).toEqual(before)
  })

  it.each(damages)('S3.16 %s is detected and repaired', async (_name, damage) => {
    await tested.install(layers)
    const before = await treeFiles(layers)
    const outside = join(tested.temp.path, 'outside')
    await mkdir(outside)
    await writeFile(join(outside, 'a'), 'of somebody else')
    await damage(tested.store.treePath(treeOf(layers)), outside)
    expect(await tested.store.verify(treeOf(layers), { signal: never })).toBe('damaged')
    await tested.install(layers, { onExisting: 'repair' })
    expect(await tested.store.verify(treeOf(layers), { signal: never })).toBe('intact')
    expect(await treeFiles(layers)).toEqual(before)
    expect(await snapshot(outside)).toEqual({ a: '644 of somebody else' })
    expect(await readdir(join(tested.root, 'staging'))).toEqual([])
  })

  it('E19 does not touch undamaged files, also for a process that has one open', async () => {
    await tested.install(layers)
    const path = join(tested.store.treePath(treeOf(layers)), 'lib/b')
    const { ino } = await stat(path)
    await using running = await open(join(tested.store.treePath(treeOf(layers)), 'lib/a'), 'r')
    await rm(join(tested.store.treePath(treeOf(layers)), 'lib/a'))
    await tested.install(layers, { onExisting: 'repair' })
    expect((await stat(path)).ino).toBe(ino)
    expect(await running.readFile('utf8')).toBe('lib/a')
  })
})

describe('imports', () => {
  const digestOf = async (directory: string): Promise<Digest> =>
    Digest.parse(sha256(Buffer.from(JSON.stringify(await snapshot(directory)))))

  it('a directory is copied under the same rules and named by the digest of the copy', async () => {
    const from = join(tested.temp.path, 'mine')
    await mkdir(join(from, 'lib'), { recursive: true })
    await writeFile(join(from, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
    await writeFile(join(from, 'lib/x'), 'x')
    await symlink('lib/x', join(from, 'link'))
    const { digest } = await tested.store.importDirectory(from, { signal: never, digestOf })
    expect(await snapshot(tested.store.treePath(digest))).toEqual(await snapshot(from))
    expect(await tested.store.verify(digest, { signal: never })).toBe('intact')
    await writeFile(join(tested.store.treePath(digest), 'lib/x'), 'y')
    await tested.store.importDirectory(from, { signal: never, digestOf, onExisting: 'repair' })
    expect(await tested.store.verify(digest, { signal: never })).toBe('intact')
    expect(await readdir(join(tested.root, 'staging'))).toEqual([])
  })

  it.each([
    ['symlink_escape', (from: string) => symlink('/etc/passwd', join(from, 'l'))],
    ['whiteout', (from: string) => writeFile(join(from, '.wh.x'), '')],
  ] as const)('a directory is refused for %s', async (reason, plant) => {
    const from = join(tested.temp.path, 'mine')
    await mkdir(from)
    await writeFile(join(from, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
    await plant(from)
    const failure = await failureOfPromise(tested.store.importDirectory(from, { signal: never, digestOf }))
    expect(failure.message).toContain(`refused (${reason})`)
    expect(await readdir(join(tested.root, 'staging'))).toEqual([])
  })

  it('an archive by its sha256 becomes a blob and a tree', async () => {
    const layer = backendLayer('archive')
    const path = join(tested.temp.path, 'backend.tar.gz')
    await writeFile(path, layer.bytes)
    const digest = Digest.parse(layer.digest)
    await tested.store.importArchive(path, digest, { signal: never })
    await tested.store.unpack(digest, [{ digest, mediaType: 'application/gzip', diffId: null }], { signal: never })
    expect(await snapshot(tested.store.treePath(digest))).toMatchObject({ version: '644 archive' })
    const other = Digest.parse(`sha256:${'1'.repeat(64)}`)
    expect(await failureOfPromise(tested.store.importArchive(path, other, { signal: never }))).toMatchObject({ code: 'integrity' })
  })
})

describe('records', () => {
  const name = BackendName.parse('llama')
  const versions = ['1', '2', '3'].map(backendLayer)
  const activateAll = async (): Promise<Digest[]> => {
    const trees: Digest[] = []
    for (const [at, layer] of versions.entries()) {
      await tested.install([layer])
      trees.push(treeOf([layer]))
      await tested.store.activate(recordOf('llama', treeOf([layer]), String(at + 1)))
    }
    return trees
  }

  it('S3.1 name the active and the previous version, and only these are kept', async () => {
    const [first, second, third] = await activateAll()
    expect(await tested.store.get(name)).toMatchObject({
      current: { version: '3', digest: third },
      previous: { version: '2', digest: second },
    })
    expect(await tested.store.collect(never)).toMatchObject({ trees: 1, blobs: 1 })
    expect(first && (await tested.store.summary(first))).toBeNull()
    for (const tree of [second, third]) expect(tree && (await tested.store.verify(tree, { signal: never }))).toBe('intact')
  })

  it('survive a restart and are gone once deleted', async () => {
    await activateAll()
    const again = await tested.reopen()
    expect(await again.store.list()).toMatchObject([{ name: 'llama', version: '3' }])
    expect(await again.store.deactivate(name)).toBe(true)
    expect(await again.store.deactivate(name)).toBe(false)
    expect(await again.store.list()).toEqual([])
    expect(await again.store.collect(never)).toMatchObject({ trees: 3, blobs: 3 })
    expect(await readdir(join(again.root, 'blobs/sha256'))).toEqual([])
  })

  it('I7 of a tree that is not unpacked are refused', async () => {
    expect(await failureOfPromise(tested.store.activate(recordOf('llama', treeOf(versions))))).toMatchObject({ code: 'internal' })
    expect(await tested.store.list()).toEqual([])
  })

  it('E23 written by a newer version are kept, and nothing is collected while they exist', async () => {
    const [first] = await activateAll()
    const path = join(tested.root, 'backends/llama/current')
    await writeFile(path, '{"format":2}')
    expect(await tested.store.list()).toEqual([])
    expect(await tested.store.collect(never)).toMatchObject({ trees: 0, blobs: 0 })
    expect(first && (await tested.store.verify(first, { signal: never }))).toBe('intact')
    expect(await readFile(path, 'utf8')).toBe('{"format":2}')
  })

  it('share layers: after one backend is removed, the layers of the other stay', async () => {
    const base = layerOf(tar([runSh, file('base')]))
    const [one, two] = [
      [base, backendLayer('one')],
      [base, layerOf(tar([file('two')]))],
    ]
    for (const [at, layers] of [one, two].entries()) {
      await tested.install(layers)
      await tested.store.activate(recordOf(`b${at}`, treeOf(layers)))
    }
    await tested.store.deactivate(BackendName.parse('b0'))
    expect(await tested.store.collect(never)).toMatchObject({ trees: 1, blobs: 1 })
    expect(await tested.store.hasBlob(Digest.parse(base.digest))).toBe(true)
    await tested.install(two, { onExisting: 'repair' })
  })
})

describe('garbage collection', () => {
  it('E20 keeps a tree while a running process holds it', async () => {
    const layers = [backendLayer('1')]
    await tested.install(layers)
    const held = tested.store.hold([treeOf(layers)])
    expect(await tested.store.collect(never)).toMatchObject({ trees: 0 })
    held[Symbol.dispose]()
    expect(await tested.store.collect(never)).toMatchObject({ trees: 1, blobs: 1 })
  })

  it('keeps the blobs of an unfinished install for a week', async () => {
    const layers = [backendLayer('1')]
    const digests = layersOf(layers).map(({ digest }) => digest)
    const note = join(tested.root, 'pulls', hex(treeOf(layers)))
    await tested.store.beginPull(treeOf(layers), digests)
    for (const layer of layers) await tested.put(layer)
    const { store, put } = await tested.reopen()
    expect(await store.collect(never)).toMatchObject({ blobs: 0 })
    await utimes(note, 1, 1)
    expect(await store.collect(never)).toMatchObject({ blobs: 1 })
    expect(await readdir(join(tested.root, 'pulls'))).toEqual([])
    for (const end of [() => store.endPull(treeOf(layers)), () => writeFile(note, 'no list')]) {
      await store.beginPull(treeOf(layers), digests)
      for (const layer of layers) await put(layer)
      await end()
      expect(await store.collect(never)).toMatchObject({ blobs: 1 })
    }
  })

  it('removes downloads that were not continued for a week', async () => {
    const [old, young] = ['1', '2'].map((each) => join(tested.root, 'incoming', each.repeat(64)))
    for (const path of [old, young]) await writeFile(path ?? '', 'partial')
    await utimes(old ?? '', 1, 1)
    expect(await tested.store.collect(never)).toEqual({ trees: 0, blobs: 0, incoming: 1, bytes: 7 })
    expect(await readdir(join(tested.root, 'incoming'))).toEqual(['2'.repeat(64)])
  })

  it('E21 never removes a blob or a tree of a running install', async () => {
    const variants = ['1', '2', '3'].map((text) => [layerOf(tar([runSh, file('shared')])), backendLayer(text)])
    let isDone = false
    const collecting = (async () => {
      let rounds = 0
      for (; !isDone; rounds++) await tested.store.collect(never)
      return rounds
    })()
    try {
      for (let round = 0; round < 12; round++) {
        await Promise.all(
          variants.map(async (layers, at) => {
            const digests = layersOf(layers).map(({ digest }) => digest)
            using held = new DisposableStack()
            held.use(tested.store.hold([treeOf(layers), ...digests]))
            await tested.install(layers)
            // No record names the tree yet: only the hold protects it from a whole collection.
            await tested.store.collect(never)
            expect(await tested.store.verify(treeOf(layers), { signal: never })).toBe('intact')
            await tested.store.activate(recordOf(`b${at}`, treeOf(layers)))
            expect(await readFile(join(tested.store.treePath(treeOf(layers)), 'version'), 'utf8')).toBe(String(at + 1))
          }),
        )
        for (const at of variants.keys()) await tested.store.deactivate(BackendName.parse(`b${at}`))
      }
    } finally {
      isDone = true
    }
    expect(await collecting).toBeGreaterThan(5)
  })
})
