// Images, archives, files, addresses and galleries that must not be installed, through the whole worker: each fails for
// the right reason, and what is on the machine is what it was (I19). Here are 146 of them; 137 layers more are refused by
// the store (worker/src/storage/hostile-layers.int.test.ts), and about 90 addresses by the way out (source/src/outbound).
import { execFileSync } from 'node:child_process'
import { chmod, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { digestOf, startHostileRegistry, tar, tarWithoutEnd, zstdWithWindow, type HostileRegistry, type TarEntry } from '@muster/testkit'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { fingerprint, plantCanary } from './canary.ts'
import { hostileImages, imageOfLayer } from './hostile-images.ts'
import { backendImage, startWorkerWorld, type Installing, type WorkerWorld } from './worker-world.ts'

let world: WorkerWorld
let registry: HostileRegistry
let made = 0

type Request = Omit<Installing, 'backend'>
type Row = readonly [name: string, code: string, message: RegExp, request: () => Request | Promise<Request>]

const runSh: TarEntry = { path: 'run.sh', data: '#!/bin/sh\nexit 0\n', mode: 0o755 }
const good = tar([runSh])
const run = (program: string, ...args: string[]): Buffer => execFileSync(program, args)
const newName = (): string => `evil-${made++}`
const layer = (...pieces: (TarEntry | Uint8Array)[]): Buffer => tar([runSh, ...pieces])

const images: readonly Row[] = hostileImages.map(([name, code, message, plant]) => [
  name,
  code,
  message,
  () => {
    const repository = newName()
    plant(registry, repository)
    return { uri: `${registry.host}/${repository}:v1` }
  },
])

const layers: readonly Row[] = (
  [
    ['a layer with ..', /path_parent/, layer({ path: '../../canary/x/passwd', data: 'evil' })],
    ['a layer with an absolute path', /path_absolute/, layer({ path: '/etc/cron.d/evil', data: 'x' })],
    ['a layer with a link outside', /symlink_escape/, layer({ path: 'l', type: '2', linkPath: '../../../../canary' })],
    ['a layer with a hard link outside', /hardlink_escape/, layer({ path: 'h', type: '1', linkPath: '../../canary/x/passwd' })],
    [
      'a layer that writes through a link',
      /through_symlink/,
      layer({ path: 'd/', type: '5' }, { path: 'l', type: '2', linkPath: 'd' }, { path: 'l/x' }),
    ],
    ['a layer with a device', /entry_type/, layer({ path: 'sda', type: '4' })],
    ['a layer with a pipe', /entry_type/, layer({ path: 'pipe', type: '6' })],
    ['a layer with a file twice', /entry_duplicate/, layer({ path: 'a' }, { path: 'a' })],
    ['a layer that ends too soon', /archive_truncated/, tarWithoutEnd([runSh])],
    ['a layer with something behind its end', /archive_trailing_data/, Buffer.concat([good, tar([{ path: 'x' }])])],
    ['a layer of zstd that wants 2 GB', /archive_header|compression/, zstdWithWindow(good, 31)],
    ['an image that starts nothing', /artifact/, tar([{ path: 'readme', data: 'x' }])],
    ['an image whose run.sh is not executable', /artifact/, tar([{ path: 'run.sh', data: 'x' }])],
    [
      'an image that starts /bin/sh',
      /path_absolute/,
      layer({ path: 'backend.json', data: JSON.stringify({ name: 'x', driver: 'openai-http', command: ['/bin/sh'] }) }),
    ],
    ['an image with a broken description', /artifact/, layer({ path: 'backend.json', data: '{' })],
  ] as const
).map(([name, message, bytes]): Row => [
  name,
  'integrity',
  message,
  () => {
    const repository = newName()
    imageOfLayer(bytes)(registry, repository)
    return { uri: `${registry.host}/${repository}:v1` }
  },
])

/** Bytes at an address; the digest is theirs unless told. */
const served =
  (bytes: Buffer, { name = 'a.tar.gz', digest }: { name?: string; digest?: string } = {}) =>
  (): Request => {
    const path = `/files/${newName()}/${name}`
    registry.on(path, { do: 'answer', status: 200, body: bytes })
    return { uri: `${registry.url}${path}`, digest: digest ?? digestOf(bytes) }
  }
const redirected = (to: () => string) => (): Request => {
  const path = `/files/${newName()}/a.tar.gz`
  registry.on(path, { do: 'redirect', to: to() })
  return { uri: `${registry.url}${path}`, digest: digestOf(good) }
}

const archives: readonly Row[] = [
  ['an archive of another hash', 'integrity', /another hash/, served(gzipSync(good), { digest: `sha256:${'0'.repeat(64)}` })],
  ['an archive that is not there', 'not_found', /does not exist/, () => ({ uri: `${registry.url}/none.tar.gz`, digest: digestOf(good) })],
  ['an archive without a digest', 'invalid', /needs its digest/, () => ({ uri: `${registry.url}/none.tar.gz` })],
  ['an archive that is not packed', 'integrity', /compression/, served(good)],
  ['an archive of nothing', 'integrity', /compression/, served(Buffer.alloc(0))],
  ['a page instead of an archive', 'integrity', /compression/, served(Buffer.from('<!doctype html><p>Not here'))],
  ['a zip', 'integrity', /compression/, served(Buffer.from('PK\x03\x04 and so on'))],
  ['gzip that calls itself zstd', 'integrity', /compression/, served(gzipSync(good), { name: 'a.tar.zst' })],
  ['an archive with ..', 'integrity', /path_parent/, served(gzipSync(layer({ path: '../x' })))],
  ['an archive with a link outside', 'integrity', /symlink_escape/, served(gzipSync(layer({ path: 'l', type: '2', linkPath: '/etc' })))],
  ['an archive that starts nothing', 'integrity', /artifact/, served(gzipSync(tar([{ path: 'x' }])))],
  ['an archive cut off', 'integrity', /compression/, served(gzipSync(good).subarray(0, -6))],
  ['an archive with something behind it', 'integrity', /compression/, served(Buffer.concat([gzipSync(good), Buffer.from('more')]))],
  ['an archive that leads to the metadata of a cloud', 'invalid', /source_forbidden/, redirected(() => 'http://169.254.169.254/latest')],
  ['an archive that leads to a file', 'invalid', /source_forbidden/, redirected(() => 'file:///etc/passwd')],
  ['an archive that leads to a private network', 'invalid', /source_forbidden/, redirected(() => 'https://10.0.0.1/a.tar.gz')],
  ['an archive that leads in a circle', 'invalid', /source_forbidden/, redirected(() => `${registry.url}/files/evil-${made - 1}/a.tar.gz`)],
]

const files: readonly Row[] = [
  ['no such file', 'not_found', /does not exist on this machine/, () => ({ uri: `file://${world.directory}/none` })],
  ['a device without an end', 'invalid', /neither/, () => ({ uri: 'file:///dev/zero' })],
  ['a file of another machine', 'invalid', /not a file URL of this machine/, () => ({ uri: 'file://elsewhere/x' })],
  ['a slash in disguise', 'invalid', /not a file URL of this machine/, () => ({ uri: 'file:///tmp/a%2fb' })],
  ['a zero in a path', 'not_found', /does not exist on this machine/, () => ({ uri: 'file:///tmp/a%00b' })],
  ['a file that is no archive', 'integrity', /compression/, () => ({ uri: 'file:///etc/passwd' })],
  ['an empty directory', 'integrity', /artifact/, () => directoryWith(async () => undefined)],
  ['a directory with a link outside', 'integrity', /symlink_escape/, () => directoryWith((path) => symlink('/etc', join(path, 'l')))],
  ['a directory with a pipe', 'integrity', /entry_type/, () => directoryWith(async (path) => void run('mkfifo', join(path, 'p')))],
  [
    'a directory of another digest',
    'integrity',
    /has the digest .*; expected /,
    async () => ({ ...(await directoryWith(startable)), digest: digestOf(good) }),
  ],
  [
    'an archive of this machine of another digest',
    'integrity',
    /has the digest .*; expected /,
    () => fileWith(gzipSync(good), { digest: digestOf(good) }),
  ],
  ['an archive of this machine with ..', 'integrity', /path_parent/, () => fileWith(gzipSync(layer({ path: '../x' })))],
  ['an archive of this machine cut off', 'integrity', /compression/, () => fileWith(gzipSync(good).subarray(0, -6))],
]
async function startable(path: string): Promise<void> {
  await writeFile(join(path, 'run.sh'), '#!/bin/sh\n')
  await chmod(join(path, 'run.sh'), 0o755)
}
async function directoryWith(fill: (path: string) => Promise<void>): Promise<Request> {
  const path = join(world.directory, 'sources', newName())
  await mkdir(path, { recursive: true })
  await fill(path)
  return { uri: `file://${path}` }
}
async function fileWith(bytes: Buffer, more: Request = {}): Promise<Request> {
  await mkdir(join(world.directory, 'sources'), { recursive: true })
  const path = join(world.directory, 'sources', `${newName()}.tar.gz`)
  await writeFile(path, bytes)
  return { uri: `file://${path}`, ...more }
}

const addresses: readonly Row[] = (
  [
    ['oci://169.254.169.254/x:1', /source_forbidden/],
    ['oci://10.1.2.3/x:1', /source_forbidden/],
    ['oci://[::ffff:10.1.2.3]/x:1', /source_forbidden|not an image reference/],
    ['oci://0x7f.1/x:1', /not an image reference/],
    ['oci://EXAMPLE.com/x:1', /not an image reference/],
    ['oci://127.0.0.1/../x:1', /not an image reference/],
    ['oci://127.0.0.1/x@sha256:abc', /not an image reference/],
    ['oci://127.0.0.1/x@sha512:abc@y', /not an image reference/],
    ['oci://user:password@127.0.0.1/x', /not an image reference/],
    ['ftp://127.0.0.1/x.tar.gz', /unsupported source/],
    ['javascript:alert(1)', /unsupported source|not an image reference/],
    ['two words', /unsupported source/],
    ['../../etc', /unsupported source|not an image reference/],
    ['', /unsupported source/],
  ] as const
).map(([uri, message]): Row => [`the address ${JSON.stringify(uri)}`, 'invalid', message, () => ({ uri })])

const offered = (text: string | readonly object[]) => (): Request => {
  world.offer(text)
  return {}
}
/** Asked for by the name of the row, which `evil` stands for. */
const galleries: readonly Row[] = [
  ['a gallery that is no YAML', 'invalid', /gallery mine/, offered('{[')],
  ['a gallery that is no list', 'invalid', /is a list/, offered('name: evil')],
  ['a gallery that laughs a billion times', 'invalid', /gallery mine/, offered(laughs())],
  ['a gallery of 20,000 entries', 'invalid', /at most/, offered(Array.from({ length: 20_000 }, (_, n) => ({ name: `b${n}`, uri: 'a/b' })))],
  ['a gallery of 9 MB', 'invalid', /more than|larger|at most/, offered(`- name: evil\n  description: "${'x'.repeat(9 << 20)}"`)],
  ['a gallery that is deep', 'invalid', /gallery mine/, offered(`${'['.repeat(5000)}${']'.repeat(5000)}`)],
  ['an entry without a name', 'not_found', /no gallery offers/, offered([{ uri: 'a/b' }])],
  ['an entry that is a path', 'not_found', /no gallery offers/, offered([{ name: '../../evil', uri: 'a/b' }])],
  ['an entry that is text', 'not_found', /no gallery offers/, offered('- evil')],
  ['an entry with a file of the worker', 'not_found', /names a file of the node/, offered([{ name: 'evil', uri: 'file:///etc' }])],
  [
    'an entry with a file as a mirror',
    'not_found',
    /names a file of the node/,
    offered([{ name: 'evil', uri: 'a/b', mirrors: ['file:///etc'] }]),
  ],
  ['an entry that is built in', 'not_found', /built-in backend/, offered([{ name: 'evil', uri: `builtin://x@sha256:${'0'.repeat(64)}` }])],
  ['an entry with a line break', 'not_found', /characters that no source has/, offered([{ name: 'evil', uri: 'a/b\nHost: evil' }])],
  ['an entry by ftp', 'not_found', /unsupported source/, offered([{ name: 'evil', uri: 'ftp://a/b' }])],
  ['an entry with a hash that is none', 'not_found', /sha256/, offered([{ name: 'evil', uri: 'a/b', sha256: 'xyz' }])],
  ['an archive without a hash', 'invalid', /needs a sha256/, offered([{ name: 'evil', uri: 'https://127.0.0.1/a.tar.gz' }])],
  ['a meta backend for nobody here', 'incompatible', /nothing for/, offered([{ name: 'evil', capabilities: { 'made-up': 'x' } }])],
  ['a meta backend for nothing', 'not_found', /no gallery offers/, offered([{ name: 'evil', capabilities: { default: 'none' } }])],
  ['a meta backend for itself', 'not_found', /resolves to|no gallery/, offered([{ name: 'evil', capabilities: { default: 'evil' } }])],
  ['capabilities that are a list', 'not_found', /capabilities/, offered([{ name: 'evil', capabilities: ['default'] }])],
  ['an entry for macOS', 'incompatible', /macOS/, offered([{ name: 'evil', uri: 'a/metal-b' }])],
  ['nothing of that name', 'not_found', /no gallery offers/, offered([])],
]

function laughs(): string {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
  for (let n = 1; n < 12; n++) lines.push(`a${n}: &a${n} [${Array.from({ length: 9 }, () => `*a${n - 1}`).join(', ')}]`)
  return lines.join('\n')
}

const all = [...images, ...layers, ...archives, ...files, ...addresses, ...galleries]

describe('is refused, with everything as it was', () => {
  beforeAll(async () => {
    world = await startWorkerWorld({ postgresUrl: inject('postgresUrl') })
    registry = await startHostileRegistry()
    await plantCanary(world.directory)
    registry.addImage('fine', backendImage('2.0'), 'v1')
    expect(await world.install({ backend: 'fine', uri: `${registry.host}/fine:v1` })).toEqual({ success: true })
  })
  afterAll(async () => {
    await world[Symbol.asyncDispose]()
    await registry.stop()
  })
  /** Only the worker's journal grows; bytes that a next attempt continues with may stay. */
  const look = (): Promise<Record<string, string>> =>
    fingerprint(world.directory, ['controller', 'sources', 'worker/operations', 'worker/backends/incoming', 'worker/backends/pulls'])
  // That try never comes, and what it would need is not kept for it.
  afterEach(async () => {
    const pulls = join(world.store, 'pulls')
    for (const name of await readdir(pulls)) await rm(join(pulls, name))
  })

  it(`there are ${all.length}`, () => expect(all).toHaveLength(146))

  it.each(all)('%s', async (_, code, message, requestOf) => {
    const request = await requestOf()
    const before = { files: await look(), list: await world.list() }
    const op = newName()
    const reply = await world.start('install', { backend: 'evil', ...request, op_id: op })
    const failure = 'failure' in reply ? reply.failure : (await world.ended(op)).failure
    if (failure === undefined) await world.remove({ backend: 'evil' })
    expect(failure).toMatchObject({ code })
    expect(failure?.message).toMatch(message)
    // A path that has changed on this machine does not change back.
    const isFinal = /refused|^\/\S+ has the digest/.test(failure?.message ?? '')
    expect(failure?.retry).toBe(['unavailable', 'integrity'].includes(code) && !isFinal ? 'backoff' : 'never')
    expect({ files: await look(), list: await world.list() }).toEqual(before)
  })
})
