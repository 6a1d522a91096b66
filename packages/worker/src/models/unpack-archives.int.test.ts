// Archives among the files of a model: unpacked after verification, whole or not at all.
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { createProcesses, digestOf, startFileServer, tar, type FileServer } from '@muster/testkit'
import type { ModelFile } from '@muster/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { failureOfStage, makeTestModelFiles } from '../../test/test-model-files.ts'
import { zip } from '../../test/zip-fixture.ts'

const child = fileURLToPath(new URL('../../test/model-files-child.ts', import.meta.url))
const processes = createProcesses()
let server: FileServer
let nth = 0
beforeAll(async () => (server = await startFileServer()))
afterAll(async () => {
  await processes.stopAll()
  await server.stop()
})

const voice = [
  { path: 'model.onnx', data: 'weights\n' },
  { path: 'espeak/', type: '5' },
  { path: 'espeak/phontab', data: 'a b\n' },
]
const plain = tar(voice)
const zipped = zip(voice.map(({ path, data = '' }) => ({ path, data, mode: path.endsWith('/') ? 0o040755 : 0o100644 })))
/** Made by bzip2 and xz of the same kind of files. */
const bzipped = Buffer.from(
  'QlpoOTFBWSZTWa6vlYIAAP17kcuQBEBQAf+QMSB2/97KBAAAAgIIMADWkMAA0aaAMmgNBkBoCUKm1NMnpAGgAHpA0ek0AqpIAyA0NBoAAaDQfqwO2+OLHSpMF5KBRBFnRARHOytdClGYDC6SKgqlQskIIhCnzerENMW/jTLQoTwla7xBBDpCrAHEFAIKEsGBkLi8VB7PerlNScriXZm21SrJfSZWgwFsNIocNdESSwtrPs9jov9vGPf6gIn12tPmIWBWUyE243E33A/EYvyEd38TV0Uk5A/i7kinChIV1fKwQA==',
  'base64',
)

const xzipped = Buffer.from(
  '/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4Cf/AMhdADabyLBXF+HaaeRBaXig8LGJSzpH/k8qCmcLA/gOawEUja4uwrDHnahG1ae1HWkC9UtFrIcvRC+CR4lDxKY9l4v17y0+KRdfGY2B+9rIToxsvw0WurnRZDFWZah9eZ/HUONEswLJe3ba31wK+MlWzGVkRd089ZxhOyO6QthH1gFXyj6K2ScRCoUGyhkMjC1RC1efLWz2P+2a4ny8q8hTqbPwGsPaNWgmE+FjXIGTbiP7BnNTxj/DkBOennx73NzNgGX+F5h8kIeAAGmT6WfDponSAAHkAYBQAAByPAXyscRn+wIAAAAABFla',
  'base64',
)

/** Serves an archive, and names it as a file of a model. */
function archive(bytes: Buffer, filename = 'voice.tar.gz'): ModelFile {
  const path = `/${++nth}/${filename}`
  const digest = digestOf(bytes)
  server.put(path, { bytes })
  return { uri: `${server.url}${path}`, filename, sha256: digest.slice('sha256:'.length), unpack: true }
}

describe('an archive is unpacked beside itself', () => {
  it.each<[string, Buffer]>([
    ['tar', plain],
    ['tar.gz', gzipSync(plain)],
    ['tar.zst', zstdCompressSync(plain)],
    ['tar.bz2', bzipped],
    ['tar.xz', xzipped],
    ['zip', zipped],
  ])('%s', async (ending, bytes) => {
    await using tested = await makeTestModelFiles()
    const wanted = [archive(bytes, `piper/voice.${ending}`)]
    using staged = await tested.stage('voice', wanted)
    const folder = join(staged.directory, 'piper')
    expect(await readFile(join(folder, 'model.onnx'), 'utf8')).toBe('weights\n')
    expect(await readFile(join(folder, 'espeak/phontab'), 'utf8')).toBe('a b\n')
    expect(await readdir(folder)).toContain(`voice.${ending}`)
    expect(await tested.names('staging')).toEqual([])
    using again = await tested.stage('voice', wanted)
    expect(again.directory).toBe(staged.directory)
    expect(server.requests.filter(({ path }) => path.startsWith(`/${nth}/`))).toHaveLength(1)
  })

  it('I7 files that were deleted are unpacked again without a fetch', async () => {
    await using tested = await makeTestModelFiles()
    const wanted = [archive(gzipSync(plain))]
    using staged = await tested.stage('voice', wanted)
    await rm(join(staged.directory, 'espeak/phontab'))
    using again = await tested.stage('voice', wanted)
    expect(await readFile(join(again.directory, 'espeak/phontab'), 'utf8')).toBe('a b\n')
    expect(server.requests.filter(({ path }) => path.startsWith(`/${nth}/`))).toHaveLength(1)
  })

  it('two archives share folders', async () => {
    await using tested = await makeTestModelFiles()
    const more = tar([{ path: 'espeak/more', data: 'c' }])
    using staged = await tested.stage('voice', [archive(plain, 'a.tar'), archive(more, 'b.tar')])
    expect(await readdir(join(staged.directory, 'espeak'))).toEqual(['more', 'phontab'])
  })
})

describe('H1 an archive is refused, and nothing of it is placed', () => {
  const flip = (bytes: Buffer, at: number): Buffer => {
    const flipped = Buffer.from(bytes)
    flipped[at] = (flipped[at] ?? 0) ^ 0xff
    return flipped
  }
  const link = { path: 'l', data: '../../out', mode: 0o120777 }
  it.each<[string, Buffer, RegExp]>([
    ['text', Buffer.from('no archive at all'), /neither a tar nor a zip archive/],
    ['a tar that leads out of its folder', tar([{ path: '../x', data: 'x' }]), /path_parent/],
    ['a zip that leads out of its folder', zip([{ path: '../x', data: 'x' }]), /path_parent/],
    ['a zip with an absolute path', zip([{ path: '/x', data: 'x' }]), /path_absolute/],
    ['a zip with a link that leads out', zip([link]), /symlink_escape/],
    [
      'a zip that writes through a link',
      zip([
        { path: 'd', data: '.', mode: 0o120777 },
        { path: 'd/x', data: 'x' },
      ]),
      /through_symlink/,
    ],
    ['a zip with a device', zip([{ path: 'x', mode: 0o020666 }]), /entry_type/],
    ['an encrypted zip', zip([{ path: 'x', data: 'x', flags: 1 }]), /is encrypted/],
    ['a zip of an unknown method', zip([{ path: 'x', data: 'x', method: 12 }]), /unsupported method 12/],
    ['a zip whose entry is longer than stated', zip([{ path: 'x', data: 'x'.repeat(100), size: 10 }]), /larger than its directory/],
    ['a zip whose entry is shorter than stated', zip([{ path: 'x', data: 'x', size: 10 }]), /another content/],
    ['a zip with a wrong checksum', zip([{ path: 'x', data: 'x', crc: 1 }]), /another content/],
    [
      'a zip with overlapping entries',
      zip([
        { path: 'x', data: 'x' },
        { path: 'y', data: 'x', at: 0 },
      ]),
      /overlaps another entry/,
    ],
    ['a zip that is a bomb', zip([{ path: 'x', data: 'x'.repeat(200 * 1024 ** 2) }]), /compression_ratio/],
    ['a zip that is cut', zipped.subarray(0, zipped.length - 30), /not a zip archive/],
    ['damaged bzip2', flip(bzipped, 100), /bzip2 data is not valid/],
    ['bzip2 that is cut', bzipped.subarray(0, 150), /it ends too early/],
    ['damaged xz', flip(xzipped, 120), /xz data is not valid/],
    ['xz that is cut', xzipped.subarray(0, 150), /it ends too early/],
    ['xz with a damaged header', flip(xzipped, 8), /its header is damaged/],
    ['xz with a damaged end', flip(xzipped, xzipped.length - 3), /its end is damaged/],
  ])('%s', async (_, bytes, reason) => {
    await using tested = await makeTestModelFiles()
    const failure = await failureOfStage(tested.stage('voice', [archive(bytes, 'a.zip')]))
    expect(failure).toMatchObject({ code: 'integrity', retry: 'never', message: expect.stringMatching(/^a\.zip: /) as string })
    expect(failure.message).toMatch(reason)
    expect(await tested.names('by-model')).toEqual([])
    expect(await tested.names('staging')).toEqual([])
  })

  it('when it contains a file of the model', async () => {
    await using tested = await makeTestModelFiles()
    const { unpack: _, ...file } = archive(Buffer.from('mine'), 'model.onnx')
    const failure = await failureOfStage(tested.stage('voice', [archive(plain, 'a.tar'), file]))
    expect(failure).toMatchObject({ code: 'integrity', message: expect.stringContaining('a.tar contains "model.onnx"') as string })
    expect(await tested.names('by-model')).toEqual([])
  })
})

it.each(['W.unpack.mid', 'W.stage.named'])(
  'S0.29 I7 kill -9 at %s leaves nothing broken: the next start unpacks without a fetch',
  async (step) => {
    await using tested = await makeTestModelFiles()
    await tested.files.close()
    const { uri, sha256 = '' } = archive(gzipSync(plain))
    const killed = await processes.start('node', { args: [child, tested.temp.path, uri, sha256, step, 'unpack'] })
    expect(await killed.exited, killed.output()).toMatchObject({ signal: 'SIGKILL' })
    const again = await tested.reopen()
    expect(await again.names('staging')).toEqual([])
    using staged = await again.stage('tiny', [{ uri, filename: 'w.gguf', sha256, unpack: true }])
    expect(await readFile(join(staged.directory, 'espeak/phontab'), 'utf8')).toBe('a b\n')
    expect(server.requests.filter(({ path }) => path.startsWith(`/${nth}/`))).toHaveLength(1)
    await again.files.close()
  },
)
