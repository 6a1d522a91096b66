import { execFileSync } from 'node:child_process'
import { chmod, link, mkdir, mkdtemp, readdir, readFile, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { FleetError } from '@muster/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { packDirectory, packedDigest, type PackedImage, type PackOptions } from './pack-directory.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'muster-pack-'))
})
afterEach(async () => {
  await rm(root, { recursive: true })
})

let made = 0
const freshDirectory = async (): Promise<string> => {
  made += 1
  const directory = join(root, `d${made}`)
  await mkdir(directory)
  return directory
}
const pack = async (directory: string, options: Partial<PackOptions> = {}): Promise<PackedImage> =>
  await packDirectory(directory, { layout: await freshDirectory(), ...options })

const longName = `${'long-'.repeat(30)}name.txt`
async function fill(directory: string, order: 'forwards' | 'backwards'): Promise<string> {
  const steps = [
    () => writeFile(join(directory, 'run.sh'), '#!/bin/sh\nexec true\n', { mode: 0o755 }),
    () => writeFile(join(directory, 'backend.json'), '{}', { mode: 0o600 }),
    () => mkdir(join(directory, 'lib')),
    () => mkdir(join(directory, 'empty')),
    () => writeFile(join(directory, 'ünï.txt'), 'ü'),
    () => writeFile(join(directory, longName), 'x'.repeat(513)),
    () => symlink('run.sh', join(directory, 'start')),
  ]
  for (const step of order === 'forwards' ? steps : steps.toReversed()) await step()
  await writeFile(join(directory, 'lib', 'a.so'), Buffer.alloc(300_000, 7))
  await symlink('../run.sh', join(directory, 'lib', 'up'))
  await symlink('not-there-yet', join(directory, 'lib', 'dangling'))
  return directory
}

/** The layer as it was before compression. */
async function layerOf(image: PackedImage): Promise<Buffer> {
  const [layer] = image.blobs
  if (layer === undefined) throw new Error('an image has a layer')
  const bytes = await readFile(image.layout.pathOf(layer.digest))
  if (layer.mediaType.endsWith('+zstd')) return zstdDecompressSync(bytes)
  return layer.mediaType.endsWith('+gzip') ? gunzipSync(bytes) : bytes
}

it('packedDigest is the digest of the image, without the image', async () => {
  const directory = await fill(await freshDirectory(), 'forwards')
  const { root: packed } = await pack(directory, { compression: 'none' })
  expect(await packedDigest(directory, new AbortController().signal)).toBe(packed.digest)
})

describe('packDirectory', () => {
  it('gives the same digest for the same files, whatever their order, times, owners and other modes', async () => {
    const one = await fill(await freshDirectory(), 'forwards')
    const other = await fill(await freshDirectory(), 'backwards')
    await chmod(join(other, 'backend.json'), 0o664)
    await chmod(join(other, 'run.sh'), 0o700)
    await chmod(join(other, 'lib'), 0o700)
    await utimes(join(other, 'run.sh'), 1, 1)
    const images = [await pack(one), await pack(one), await pack(other)]
    expect(new Set(images.map((image) => image.root.digest)).size).toBe(1)
    // The bytes of a layer never change again: with other ones every backend would get a new digest.
    const plain = await pack(one, { compression: 'none' })
    expect(images[0]?.diffId).toBe('sha256:ae5d707c9eef81f0f16280c5bcbf398a836d50c82ee52390c137b1137656c523')
    expect(plain.root.digest).toBe('sha256:c5c04343d24ef1a2e23d338fc5f37104c888a39479c5101804b3aa703f197518')
  })

  it.each([
    ['a byte of a file', (at: string) => writeFile(join(at, 'backend.json'), '{ }')],
    ['whether a file can be executed', (at: string) => chmod(join(at, 'backend.json'), 0o744)],
    ['a name', (at: string) => writeFile(join(at, 'more'), '')],
  ])('gives another digest when %s differs', async (_, change) => {
    const directory = await fill(await freshDirectory(), 'forwards')
    const before = await pack(directory)
    await change(directory)
    expect((await pack(directory)).root.digest).not.toBe(before.root.digest)
  })

  it.each(['zstd', 'gzip', 'none'] as const)('writes a layer that tar unpacks to the same files (%s)', async (compression) => {
    const directory = await fill(await freshDirectory(), 'forwards')
    const image = await pack(directory, { compression })
    const target = await freshDirectory()
    const listing = execFileSync('tar', ['-tv', '--full-time', '--utc', '--numeric-owner'], {
      input: await layerOf(image),
      encoding: 'utf8',
    }).split('\n')
    expect(
      listing.every((line) => line === '' || line.includes(' 0/0 ')),
      listing.join('\n'),
    ).toBe(true)
    expect(
      listing.every((line) => line === '' || line.includes('1970-01-01 00:00:00')),
      listing.join('\n'),
    ).toBe(true)
    execFileSync('tar', ['-x', '-C', target], { input: await layerOf(image) })
    expect(execFileSync('diff', ['-r', '--no-dereference', directory, target], { encoding: 'utf8' })).toBe('')
    expect(execFileSync('stat', ['-c', '%a', 'run.sh', 'backend.json', 'lib'], { cwd: target, encoding: 'utf8' })).toBe('755\n644\n755\n')
  })

  it('gives the same diff_id with every compression', async () => {
    const directory = await fill(await freshDirectory(), 'forwards')
    const ids = [await pack(directory), await pack(directory, { compression: 'gzip' }), await pack(directory, { compression: 'none' })]
    expect(new Set(ids.map((image) => image.diffId)).size).toBe(1)
    expect(ids[2]?.blobs[0]?.digest).toBe(ids[2]?.diffId)
  })

  it('creates an index with an image for each platform, and stores a shared layer once', async () => {
    const directory = await fill(await freshDirectory(), 'forwards')
    const arm = { os: 'linux', architecture: 'arm64' }
    const amd = { os: 'linux', architecture: 'amd64' }
    const image = await pack(directory, { platforms: [arm, amd, arm], refName: 'v1' })
    const index: unknown = JSON.parse(await readFile(image.layout.pathOf(image.root.digest), 'utf8'))
    expect(index).toMatchObject({ manifests: [{ platform: amd }, { platform: arm }] })
    expect(image.blobs.filter((blob) => blob.mediaType.includes('layer'))).toHaveLength(1)
    expect((await pack(directory, { platforms: [amd, arm] })).root.digest).toBe(image.root.digest)
    const top: unknown = JSON.parse(await readFile(join(image.layout.directory, 'index.json'), 'utf8'))
    expect(top).toMatchObject({ manifests: [{ digest: image.root.digest, annotations: { 'org.opencontainers.image.ref.name': 'v1' } }] })
  })

  it('replaces an image of the same name in a layout and keeps the others', async () => {
    const directory = await fill(await freshDirectory(), 'forwards')
    const layout = await freshDirectory()
    const first = await pack(directory, { layout, refName: 'v1' })
    await writeFile(join(directory, 'more'), '')
    const second = await pack(directory, { layout, refName: 'v2' })
    await writeFile(join(directory, 'even-more'), '')
    const third = await pack(directory, { layout, refName: 'v2' })
    const { manifests } = JSON.parse(await readFile(join(layout, 'index.json'), 'utf8')) as { manifests: { digest: string }[] }
    expect(manifests.map((each) => each.digest)).toEqual([first.root.digest, third.root.digest])
    expect(second.root.digest).not.toBe(third.root.digest)
  })

  it('leaves nothing half written when it is aborted', async () => {
    const directory = await fill(await freshDirectory(), 'forwards')
    const layout = await freshDirectory()
    await expect(packDirectory(directory, { layout, signal: AbortSignal.abort() })).rejects.toThrow('abort')
    expect(await readdir(layout, { recursive: true })).toEqual([])
  })
})

describe('content that a worker would refuse to unpack is not packed', () => {
  it.each<[string, (at: string) => Promise<unknown>, string]>([
    ['an absolute link', (at) => symlink('/etc/passwd', join(at, 'l')), 'l is a link to the absolute path /etc/passwd'],
    ['a link that leads out', (at) => symlink('../x', join(at, 'l')), 'l is a link that leads out of the directory, to ../x'],
    ['a link that leads out and in again', (at) => symlink('a/../../x', join(at, 'l')), 'leads out'],
    [
      'a link that leads out over another link',
      async (at) => {
        await mkdir(join(at, 'a', 'b'), { recursive: true })
        await symlink('a/b', join(at, 'd'))
        await symlink('d/../../..', join(at, 'l'))
      },
      'leads out',
    ],
    ['a fifo', async (at) => execFileSync('mkfifo', [join(at, 'f')]), 'f is neither a file, a directory nor a symbolic link'],
    ['a setuid file', (at) => writeFile(join(at, 's'), '').then(() => chmod(join(at, 's'), 0o4755)), 's is setuid or setgid'],
    ['a setgid file', (at) => writeFile(join(at, 's'), '').then(() => chmod(join(at, 's'), 0o2755)), 's is setuid or setgid'],
    ['a whiteout', (at) => writeFile(join(at, '.wh.x'), ''), '".wh.x" means "deleted"'],
    ['a name that is not UTF-8', (at) => writeFile(Buffer.concat([Buffer.from(`${at}/`), Buffer.from([0xff])]), ''), 'is not UTF-8'],
    [
      'a tree that is too deep',
      (at) => mkdir(join(at, ...Array.from({ length: 70 }, () => 'd')), { recursive: true }),
      'nested deeper than 64',
    ],
  ])('%s', async (_, plant, reason) => {
    const directory = await freshDirectory()
    await plant(directory)
    const refusal = await pack(directory).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(FleetError)
    expect(String(refusal)).toContain(reason)
  })

  it('content that would look like a bomb, unless it is not compressed', async () => {
    const directory = await freshDirectory()
    await writeFile(join(directory, 'zeros'), '')
    await truncate(join(directory, 'zeros'), 70_000_000)
    await expect(pack(directory)).rejects.toThrow('--compression none')
    expect((await pack(directory, { compression: 'none' })).entries).toBe(1)
  }, 20_000)

  it('but hard links are, as files of their own', async () => {
    const directory = await freshDirectory()
    await writeFile(join(directory, 'a'), 'same')
    await link(join(directory, 'a'), join(directory, 'b'))
    expect(execFileSync('tar', ['-t'], { input: await layerOf(await pack(directory)), encoding: 'utf8' })).toBe('a\nb\n')
  })

  it('a file instead of a directory, and nothing at all, are refused with a sentence', async () => {
    await expect(pack(join(root, 'missing'))).rejects.toThrow('cannot pack')
    await writeFile(join(root, 'file'), '')
    await expect(pack(join(root, 'file'))).rejects.toThrow('it is not a directory')
  })
})
