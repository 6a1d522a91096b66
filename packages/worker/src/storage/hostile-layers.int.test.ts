// Hostile layers: each is refused for the right reason, leaves nothing behind, and touches nothing outside the data
// directory (I19).
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { defaultUnpackLimits, failureOf } from '@muster/protocol'
import {
  gnuLong,
  layerFrom,
  layerOf,
  pax,
  paxRecord,
  tar,
  tarEntry,
  tarHeader,
  tarWithoutEnd,
  zstdWithWindow,
  type Layer,
  type TarEntry,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeTestStore, plantCanary, runSh, treeOf, type TestStore } from '../../test/test-store.ts'
import type { RefusalReason } from './unpack/refusal.ts'

type Row = readonly [name: string, reason: RefusalReason, layers: readonly Layer[]]

const symlink = (path: string, linkPath: string): TarEntry => ({ path, type: '2', linkPath })
const hardlink = (path: string, linkPath: string): TarEntry => ({ path, type: '1', linkPath })
const directory = (path: string): TarEntry => ({ path, type: '5' })
const file = (path: string, data = 'written'): TarEntry => ({ path, data })
/** A valid backend plus the given entries. */
const layer = (...pieces: (TarEntry | Uint8Array)[]): Layer => layerOf(tar([runSh, ...pieces]))
const row = (name: string, reason: RefusalReason, ...pieces: (TarEntry | Uint8Array)[]): Row => [name, reason, [layer(...pieces)]]
const binary = (bytes: readonly number[], length: number): Uint8Array =>
  Buffer.concat([Buffer.from(bytes), Buffer.alloc(length - bytes.length)])

const good = tar([runSh, file('data', 'x'.repeat(3000))])
const packed = (bytes: Buffer, compression: 'gzip' | 'zstd'): Layer => layerFrom(bytes, { archive: good, compression })
const long = (bytes: number): string => `${'d'.repeat(99)}/`.repeat(Math.ceil(bytes / 100)).slice(0, bytes)

const paths: readonly Row[] = [
  row('H1 ../x', 'path_parent', file('../x')),
  row('H1 a/../../x', 'path_parent', file('a/../../x')),
  row('H1 a/.. that stays inside', 'path_parent', file('a/../b')),
  row('H1 ..', 'path_parent', directory('..')),
  row('H1 ../ as directory', 'path_parent', directory('../evil/')),
  row('H1 .. through the prefix of a header', 'path_parent', { path: 'x', prefix: '../..', data: 'y' }),
  row('H2 /etc/passwd', 'path_absolute', file('/etc/passwd')),
  row('H2 //x', 'path_absolute', file('//x')),
  row('H2 absolute through the prefix of a header', 'path_absolute', { path: 'x', prefix: '/etc', data: 'y' }),
  row('H3 a link outside, absolute', 'symlink_escape', symlink('l', '/etc')),
  row('H3 a link outside, then a file through it', 'symlink_escape', symlink('l', '../../outside'), file('l/passwd')),
  row('H3 a file through a link that stays inside', 'through_symlink', directory('d/'), symlink('l', 'd'), file('l/x')),
  row('H3 a directory through a link', 'through_symlink', directory('d/'), symlink('l', 'd'), directory('l/x/')),
  row('H3 a link through a link', 'through_symlink', directory('d/'), symlink('l', 'd'), symlink('l/x', 'y')),
  [
    'H3 a file through a link of a lower layer',
    'through_symlink',
    [layer(directory('d/'), symlink('l', 'd')), layerOf(tar([file('l/x')]))],
  ],
  row('H4 d/l -> ../../', 'symlink_escape', directory('d/'), symlink('d/l', '../../')),
  row('H4 d/l -> x/../../../y', 'symlink_escape', symlink('d/l', 'x/../../../y')),
  row(
    'H4 a chain of links whose parts stay inside but whose end does not',
    'symlink_escape',
    symlink('a/b/c/up', '../../..'),
    symlink('out', 'a/b/c/up/../..'),
  ),
  row('H4 the same, the outer link first', 'symlink_escape', symlink('out', 'a/b/c/up/../../etc'), symlink('a/b/c/up', '../../..')),
  [
    'H4 a chain over two layers',
    'symlink_escape',
    [layer(symlink('out', 'a/b/c/up/../..')), layerOf(tar([symlink('a/b/c/up', '../../..')]))],
  ],
  row('H4 an empty target', 'symlink_escape', symlink('l', '')),
  row('H5 a hard link to /etc/passwd', 'hardlink_escape', hardlink('h', '/etc/passwd')),
  row('H5 a hard link to ../../outside', 'hardlink_escape', hardlink('h', '../../outside/passwd')),
  row('H5 a hard link to nothing', 'hardlink_target', hardlink('h', 'nothing')),
  row('H5 a hard link to a directory', 'hardlink_target', directory('d/'), hardlink('h', 'd')),
  row('H5 a hard link to itself', 'hardlink_target', file('h1'), hardlink('h', 'h')),
  row('H6 a hard link to a link', 'hardlink_target', symlink('l', 'run.sh'), hardlink('h', 'l')),
  row('H6 a hard link through a link', 'through_symlink', directory('d/'), file('d/f'), symlink('l', 'd'), hardlink('h', 'l/f')),
  ['H6 a hard link that would replace its target', 'hardlink_target', [layer(file('d/f')), layerOf(tar([hardlink('d', 'd/f')]))]],
  row('H7 . as a link', 'root_entry', symlink('.', '/etc')),
  row('H7 ./ as a file', 'path_form', { path: './', data: '' }),
  row('H7 . as a hard link', 'root_entry', hardlink('.', 'run.sh')),
  row('H7 / as a link', 'path_absolute', symlink('/', '/etc')),
  row('H7 / as a directory', 'path_absolute', directory('/')),
  row('H7 no name at all', 'path_form', file('')),
  row('H7 a name with empty parts', 'path_form', file('a//b')),
  row('H7 a name with a dot inside', 'path_form', file('a/./b')),
  row('H7 a file named as a directory', 'path_form', file('a/')),
  row('H8 a link, then a directory of that name', 'entry_duplicate', symlink('d', 'e'), directory('d/'), file('d/f')),
  row('H8 a directory, then a link of that name, then a file in it', 'entry_duplicate', directory('d/'), symlink('d', 'e'), file('d/f')),
  row('H8 a file twice', 'entry_duplicate', file('f'), file('f')),
  row('H8 a link over a directory that has something', 'entry_duplicate', file('d/f'), symlink('d', 'e')),
  row('H8 a file, then something below it', 'through_file', file('f'), file('f/g')),
]

const kinds: readonly Row[] = [
  row('H10 a character device', 'entry_type', { path: 'null', type: '3' }),
  row('H10 a block device', 'entry_type', { path: 'sda', type: '4' }),
  row('H10 a pipe', 'entry_type', { path: 'fifo', type: '6' }),
  row('H10 a socket', 'entry_type', { path: 'sock', type: 's' }),
  row('H10 an unknown type', 'entry_type', { path: 'what', type: 'Z' }),
  row('H10 a contiguous file', 'entry_type', { path: 'what', type: '7', data: 'x' }),
  row('H12 a PAX path with ..', 'path_parent', pax({ path: '../x' }), file('fine')),
  row('H12 an absolute PAX path', 'path_absolute', pax({ path: '/etc/x' }), file('fine')),
  row('H12 a PAX linkpath outside', 'symlink_escape', pax({ linkpath: '../../x' }), symlink('l', 'fine')),
  row('H12 a PAX linkpath of a hard link outside', 'hardlink_escape', pax({ linkpath: '/etc/passwd' }), hardlink('l', 'run.sh')),
  row('H12 a PAX size that hides an entry', 'archive_size', pax({ size: '1024' }), file('small', 'x')),
  row('H12 a PAX size of 0 over data', 'archive_size', pax({ size: '0' }), file('small', 'x')),
  row('H12 a negative PAX size', 'archive_size', pax({ size: '-1' }), file('small', 'x')),
  row('H12 a PAX size beyond all numbers', 'archive_size', pax({ size: '99999999999999999999' }), file('small', 'x')),
  row('H12 a PAX path with a NUL', 'path_encoding', pax({ path: 'a\0b' }), file('fine')),
  row('H12 a global PAX path', 'archive_pax', pax({ path: 'everything' }, 'g'), file('fine')),
  row('H12 a global PAX size', 'archive_pax', pax({ size: '1' }, 'g'), file('fine')),
  row('H12 two PAX headers for one entry', 'archive_pax', pax({ path: 'a' }), pax({ path: 'b' }), file('fine')),
  row('H12 a PAX header without an entry', 'archive_pax', pax({ path: 'a' })),
  row('H12 a PAX record with a wrong length', 'archive_pax', tarEntry({ path: 'p', type: 'x', data: '99 path=x\n' }), file('fine')),
  row('H12 a PAX record without a newline', 'archive_pax', tarEntry({ path: 'p', type: 'x', data: '8 path=x' }), file('fine')),
  row('H12 a PAX record of length 0', 'archive_pax', tarEntry({ path: 'p', type: 'x', data: '0 path=x\n' }), file('fine')),
  row(
    'H12 a PAX header of a megabyte',
    'archive_pax',
    tarEntry({ path: 'p', type: 'x', data: paxRecord('comment', 'x'.repeat(1 << 20)) }),
    file('fine'),
  ),
  row('H12 a GNU long name bomb', 'archive_pax', tarEntry({ path: 'n', type: 'L', data: 'x'.repeat(1 << 20) }), file('fine')),
  row('H12 a GNU long name with ..', 'path_parent', gnuLong('L', `${'a/'.repeat(60)}../../x`), file('fine')),
  row('H12 a GNU long link outside', 'symlink_escape', gnuLong('K', `${'../'.repeat(60)}x`), symlink('l', 'fine')),
  row('H12 two GNU long names', 'archive_pax', gnuLong('L', 'a'), gnuLong('L', 'b'), file('fine')),
  row('H12 a GNU and a PAX name', 'archive_pax', gnuLong('L', 'a'), pax({ path: 'b' }), file('fine')),
  row(
    'H12 a size in base 256',
    'archive_size',
    tarHeader({ path: 'f', raw: { size: binary([0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 12) } }),
  ),
  row('H12 a negative size in base 256', 'archive_size', tarHeader({ path: 'f', raw: { size: Buffer.alloc(12, 0xff) } })),
  row('H12 a negative size in octal', 'archive_size', tarHeader({ path: 'f', raw: { size: Buffer.from('-0000000001\0') } })),
  row('H12 a size that is no number', 'archive_size', tarHeader({ path: 'f', raw: { size: Buffer.from('0x10\0\0\0\0\0\0\0\0') } })),
  row('H12 a GNU sparse file', 'archive_sparse', { path: 'sparse', type: 'S', data: 'x' }),
  row('H12 a PAX sparse file', 'archive_sparse', pax({ 'GNU.sparse.major': '1', 'GNU.sparse.name': 'x' }), file('fine')),
  row('H12 a link with data', 'archive_size', { ...symlink('l', 'x'), data: 'data' }),
  row('H12 a directory with data', 'archive_size', { ...directory('d/'), data: 'data' }),
  row('H12 a wrong checksum', 'archive_header', { path: 'f', raw: { checksum: '0001234\0' } }),
  row('H12 a checksum that is no number', 'archive_header', { path: 'f', raw: { checksum: '????????' } }),
  row('H12 an archive of no known kind', 'archive_header', { path: 'f', raw: { magic: 'rstart\x0000' } }),
  row('E24 a name of 300 characters', 'path_length', pax({ path: 'n'.repeat(300) }), file('fine')),
  row('E24 a path of 1100 bytes', 'path_length', pax({ path: long(1100) }), file('fine')),
  row('E24 a path of 70 directories', 'path_depth', pax({ path: 'd/'.repeat(70) + 'f' }), file('fine')),
  row('E24 a name that is not UTF-8', 'path_encoding', { path: '', raw: { path: Buffer.from([0x66, 0xff, 0xfe]) }, data: 'x' }),
  row('E24 a PAX name that is not UTF-8', 'path_encoding', pax({ path: Buffer.from([0xc3, 0x28]) }), file('fine')),
]

const whiteouts: readonly Row[] = [
  row('H13 .wh..', 'whiteout', file('.wh..', '')),
  row('H13 .wh...', 'whiteout', file('.wh...', '')),
  row('H13 .wh. alone', 'whiteout', file('.wh.', '')),
  row('H13 .wh..wh.aufs', 'whiteout', file('.wh..wh.aufs', '')),
  row('H13 a whiteout with content', 'whiteout', file('.wh.x', 'content')),
  row('H13 a whiteout that is a directory', 'whiteout', directory('.wh.x/')),
  row('H13 a whiteout that is a link', 'whiteout', symlink('.wh.x', 'run.sh')),
  row('H13 a file in a whiteout', 'whiteout', file('.wh.x/f')),
  row('H13 an opaque mark twice', 'entry_duplicate', file('d/.wh..wh..opq', ''), file('d/.wh..wh..opq', '')),
  [
    'H13 a whiteout through a link',
    'through_symlink',
    [layer(directory('d/'), file('d/f'), symlink('l', 'd')), layerOf(tar([file('l/.wh.f', '')]))],
  ],
  [
    'H13 an opaque mark through a link',
    'through_symlink',
    [layer(directory('d/'), file('d/f'), symlink('l', 'd')), layerOf(tar([file('l/.wh..wh..opq', '')]))],
  ],
]

const streams: readonly Row[] = [
  ['H14 garbage after the gzip data', 'compression', [packed(Buffer.concat([gzipSync(good), Buffer.from('garbage')]), 'gzip')]],
  ['H14 zeros after the gzip data', 'compression', [packed(Buffer.concat([gzipSync(good), Buffer.alloc(512)]), 'gzip')]],
  ['H14 gzip data cut off', 'compression', [packed(gzipSync(good).subarray(0, -6), 'gzip')]],
  [
    'H14 gzip within gzip',
    'archive_header',
    [layerFrom(gzipSync(Buffer.concat([gzipSync(good), Buffer.alloc(1024)])), { archive: good, compression: 'gzip' })],
  ],
  ['H14 no byte of gzip', 'compression', [packed(Buffer.alloc(0), 'gzip')]],
  ['H14 no byte of zstd', 'compression', [packed(Buffer.alloc(0), 'zstd')]],
  ['H14 no gzip at all', 'compression', [packed(good, 'gzip')]],
  ['H14 a damaged gzip checksum', 'compression', [packed(flip(gzipSync(good), -5), 'gzip')]],
  ['H14 a gzip bomb', 'compression_ratio', [layer(file('zeros', '\0'.repeat(80 * 1024 ** 2)))]],
  ['H14 a zstd bomb', 'compression_ratio', [layerOf(tar([runSh, file('zeros', '\0'.repeat(80 * 1024 ** 2))]), 'zstd')]],
  [
    'H14 a bomb of many gzip members',
    'compression_ratio',
    [packed(Buffer.concat(Array.from({ length: 80 }, () => gzipSync(Buffer.alloc(1024 ** 2)))), 'gzip')],
  ],
  ['H14 a zstd window of 2 GB', 'compression', [packed(zstdWithWindow(good, 31), 'zstd')]],
  [
    'H14 garbage after the zstd data',
    'compression',
    [packed(Buffer.concat([zstdCompressSync(good), Buffer.from('garbage, garbage')]), 'zstd')],
  ],
  [
    'H14 a skippable zstd frame beyond the end',
    'compression',
    [packed(Buffer.concat([zstdCompressSync(good), Buffer.from([0x50, 0x2a, 0x4d, 0x18, 255, 255, 0, 0])]), 'zstd')],
  ],
  ['H14 zstd data cut off', 'compression', [packed(zstdCompressSync(good).subarray(0, -4), 'zstd')]],
  ['H14 no zstd at all', 'compression', [packed(good, 'zstd')]],
  ['H14 an unknown compression', 'compression', [{ ...layer(), mediaType: 'application/vnd.oci.image.layer.v1.tar+xz' }]],
  ['H14 an archive after the archive', 'archive_trailing_data', [layerOf(Buffer.concat([good, tar([file('second')])]))]],
  [
    'E7 an archive that ends within a file',
    'archive_truncated',
    [layerOf(tarWithoutEnd([runSh, tarHeader({ path: 'f', size: 5000 }), Buffer.alloc(512)]))],
  ],
  ['E7 an archive that ends within a header', 'archive_truncated', [layerOf(tarWithoutEnd([runSh, Buffer.alloc(100, 1)]))]],
  ['E7 an archive without its end', 'archive_truncated', [layerOf(tarWithoutEnd([runSh]))]],
  ['E7 an empty layer', 'archive_truncated', [layerOf(Buffer.alloc(0))]],
  ['E9 the right digest and another diff id', 'diff_id', [{ ...layer(), diffId: `sha256:${'0'.repeat(64)}` }]],
  ['E6 more entries than allowed', 'too_many_entries', [layer(...Array.from({ length: 2000 }, (_, at) => file(`many/${at}`, '')))]],
  [
    'E6 more entries than allowed over several layers',
    'too_many_entries',
    [1, 2, 3].map((each) => layer(...Array.from({ length: 700 }, (_, at) => file(`many/${each}-${at}`, '')))),
  ],
  ['E6 more bytes than allowed, said in one header', 'too_many_bytes', [layer(tarHeader({ path: 'huge', size: 0o77777777777 }))]],
  [
    'E6 more bytes than allowed, in pieces',
    'too_many_bytes',
    [
      layer(...Array.from({ length: 3 }, (_, at) => tarHeader({ path: `huge${at}`, size: 0 })), file('a', 'x'.repeat(600)), {
        path: 'b',
        size: 101 * 1024 ** 2,
      }),
    ],
  ],
]

const artifacts: readonly Row[] = [
  ['H17 neither backend.json nor run.sh', 'artifact', [layerOf(tar([file('readme')]))]],
  ['H17 a run.sh that is not executable', 'artifact', [layerOf(tar([file('run.sh')]))]],
  ['H17 a run.sh that is a link', 'artifact', [layerOf(tar([{ path: 'x', data: '', mode: 0o755 }, symlink('run.sh', 'x')]))]],
  ['H17 a run.sh that is a directory', 'artifact', [layerOf(tar([directory('run.sh/')]))]],
  ['H17 a run.sh that a later layer removes', 'artifact', [layer(), layerOf(tar([file('.wh.run.sh', '')]))]],
  row('H17 a backend.json that is not JSON', 'artifact', file('backend.json', '{')),
  row(
    'H17 a backend.json without a command',
    'artifact',
    file('backend.json', JSON.stringify({ name: 'x', version: '1', driver: 'openai-http' })),
  ),
  row('H17 an unknown driver', 'artifact', file('backend.json', describeBackend({ driver: 'shell' }))),
  row('H17 a command outside', 'path_absolute', file('backend.json', describeBackend({ command: ['/bin/sh', '-c', 'id'] }))),
  row('H17 a command in the parent', 'path_parent', file('backend.json', describeBackend({ command: ['./../../bin/sh'] }))),
  row('H17 a command that is not there', 'artifact', file('backend.json', describeBackend({ command: ['./server'] }))),
  row('H17 a backend.json that is a link', 'artifact', symlink('backend.json', 'run.sh')),
]

function describeBackend(changes: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({ name: 'x', version: '1', driver: 'openai-http', command: ['./run.sh'], ...changes })
}

function flip(bytes: Buffer, at: number): Buffer {
  const index = at < 0 ? bytes.length + at : at
  bytes.writeUInt8(bytes.readUInt8(index) ^ 0xff, index)
  return bytes
}

describe('a layer is refused, leaving nothing behind and touching nothing outside (I19)', () => {
  let tested: TestStore
  beforeAll(async () => {
    tested = await makeTestStore({ limits: { ...defaultUnpackLimits, entries: 1500, bytes: 100 * 1024 ** 2 } })
  })
  afterAll(() => tested[Symbol.asyncDispose]())

  it.each([...paths, ...kinds, ...whiteouts, ...streams, ...artifacts])('%s', async (_name, reason, layers) => {
    const look = await plantCanary(tested.temp.path)
    const canary = (): Promise<Record<string, string>> =>
      look().then((all) => Object.fromEntries(Object.entries(all).filter(([path]) => !path.startsWith('data/blobs'))))
    const before = await canary()
    const failure = failureOf(await tested.install(layers).catch((error: unknown) => error))
    expect(failure).toMatchObject({ code: 'integrity', retry: 'never' })
    expect(failure.message).toContain(`refused (${reason})`)
    expect(await canary()).toEqual(before)
    expect(await readdir(join(tested.root, 'staging'))).toEqual([])
    expect(await tested.store.summary(treeOf(layers))).toBeNull()
  })
})
