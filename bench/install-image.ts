// Two versions of a backend as an image of eight layers, the same bytes each time: a few large libraries, thousands of
// small files, packed with gzip as real images are. The versions differ in their last layer.
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { digestOf, makeDocument, tar, type ImageDocument, type TarEntry } from '@muster/testkit'

export interface BenchImage {
  readonly manifest: ImageDocument
  readonly config: ImageDocument
  readonly layers: readonly ImageDocument[]
  readonly files: number
  /** Sum over all files. */
  readonly bytes: number
}

interface PackedLayer {
  readonly blob: ImageDocument
  readonly diffId: string
  readonly files: number
  readonly bytes: number
}

const types = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
} as const
const mega = 1_000_000

export async function makeVersions(): Promise<readonly [BenchImage, BenchImage]> {
  const pack = createPacker()
  const shared = await Promise.all([
    pack(() => large('lib/base', [40, 30, 20])),
    pack((random) => small('share/licenses', 2_500, random)),
    pack(() => large('lib/kernels', [60])),
    pack((random) => small('python/site-packages', 4_000, random)),
    pack(() => large('lib/blas', [25, 25, 10])),
    pack((random) => small('python/packages', 2_500, random)),
    pack(() => large('models', [50])),
  ])
  const last = async (version: string): Promise<PackedLayer> => pack((random) => [...program(version), ...small('etc', 500, random)])
  return [assemble([...shared, await last('1')]), assemble([...shared, await last('2')])]
}

type PlannedFile = Readonly<{ path: string; mode?: number } & ({ size: number } | { text: string })>
type Random = (below: number) => number

const large = (directory: string, sizes: readonly number[]): PlannedFile[] =>
  sizes.map((megabytes, index) => ({ path: `${directory}/lib${index}.so`, size: megabytes * mega, mode: 0o755 }))

/** 200 B to 16 kB, most of them small, forty to a directory. */
const small = (directory: string, count: number, random: Random): PlannedFile[] =>
  Array.from({ length: count }, (_, index) => ({
    path: `${directory}/part${Math.floor(index / 40)}/file${index}.py`,
    size: 200 + (random(2) === 0 ? random(2_000) : random(16_000)),
  }))

const program = (version: string): PlannedFile[] => [
  { path: 'run.sh', text: `#!/bin/sh\n# ${version}\nexec sleep 1000\n`, mode: 0o755 },
  { path: 'lib/engine.so', size: 8 * mega, mode: 0o755 },
]

function createPacker() {
  const compress = promisify(gzip)
  const content = createContent()
  const random = createRandom(7)
  return async (plan: (random: Random) => readonly PlannedFile[]): Promise<PackedLayer> => {
    const entries = plan(random).map((file): TarEntry => ({
      path: file.path,
      data: 'text' in file ? file.text : content(file.size),
      ...(file.mode === undefined ? {} : { mode: file.mode }),
    }))
    const bytes = entries.reduce((sum, { data }) => sum + (data?.length ?? 0), 0)
    const archive = tar(entries)
    const blob = makeDocument(await compress(archive), types.layer)
    return { blob, diffId: digestOf(archive), files: entries.length, bytes }
  }
}

function assemble(layers: readonly PackedLayer[]): BenchImage {
  const config = document(types.config, {
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    config: {},
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
  })
  const blobs = layers.map(({ blob }) => blob)
  const manifest = document(types.manifest, {
    schemaVersion: 2,
    mediaType: types.manifest,
    config: described(config),
    layers: blobs.map(described),
  })
  const sum = (of: (layer: PackedLayer) => number): number => layers.reduce((total, layer) => total + of(layer), 0)
  return { manifest, config, layers: blobs, files: sum(({ files }) => files), bytes: sum(({ bytes }) => bytes) }
}

const document = (mediaType: string, value: unknown): ImageDocument => makeDocument(Buffer.from(JSON.stringify(value)), mediaType)

const described = ({ bytes, digest, mediaType }: ImageDocument) => ({ mediaType, digest, size: bytes.length })

/** Words that repeat, as in code and text, with some noise: gzip makes about half of it, as of real libraries. */
function createContent(): (size: number) => Buffer {
  const random = createRandom(1)
  const noise = Buffer.from(Uint8Array.from({ length: mega }, () => random(256)))
  const words = Array.from({ length: 1_024 }, () => noise.subarray(random(mega - 16)).subarray(0, 3 + random(10)))
  const text = Buffer.concat(Array.from({ length: mega }, () => words[random(random(1_023) + 1)] ?? noise.subarray(0, 4)))
  return (size) => {
    const made = Buffer.allocUnsafe(size)
    for (let at = 0; at < size;) {
      const from = random(6) === 0 ? noise : text
      const start = random(from.length - 8_192)
      at += from.copy(made, at, start, start + 512 + random(4_096))
    }
    return made
  }
}

/** xorshift32: fast, and the same everywhere. */
function createRandom(seed: number): Random {
  let state = seed
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}
