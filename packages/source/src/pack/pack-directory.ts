// A directory → an OCI image: the same files give the same digest on any machine. Owner, times, order of the file system
// and modes (but whether a file is executable) are not part of it.
import { createHash } from 'node:crypto'
import { Digest, FleetError } from '@muster/protocol'
import { compress, type Compression } from './compress.ts'
import { jsonBytes, openLayout, type Descriptor, type ImageLayout } from './image-layout.ts'
import { writeTar } from './tar-writer.ts'
import { walkDirectory } from './walk-directory.ts'

export interface PackPlatform {
  readonly os: string
  readonly architecture: string
}

export interface PackOptions {
  /** An OCI image layout; made if it is not there. */
  readonly layout: string
  /** Under which name the layout lists the image: a tag. */
  readonly refName?: string
  /** None: one image that names no platform and suits every node. Any: an index with one image for each. */
  readonly platforms?: readonly PackPlatform[]
  readonly compression?: Compression
  readonly signal?: AbortSignal
}

export interface PackedImage {
  /** What a reference by digest names: the manifest, or the index. */
  readonly root: Descriptor
  readonly manifests: readonly Descriptor[]
  /** Everything the manifests name. */
  readonly blobs: readonly Descriptor[]
  /** sha256 of the uncompressed layer: the same for ever, whatever compresses it. */
  readonly diffId: Digest
  readonly entries: number
  readonly layout: ImageLayout
}

const mediaTypes = {
  config: 'application/vnd.oci.image.config.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  index: 'application/vnd.oci.image.index.v1+json',
  none: 'application/vnd.oci.image.layer.v1.tar',
  gzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
  zstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
} as const

/** What the config of an image says that is for every machine: it must name both, and names none. */
export const anyPlatform: PackPlatform = { os: '', architecture: '' }

export async function packDirectory(directory: string, options: PackOptions): Promise<PackedImage> {
  const { compression = 'zstd', signal = new AbortController().signal } = options
  const platforms = inOrder(options.platforms ?? [])
  const sources = await walkDirectory(directory, signal)
  const layout = await openLayout(options.layout)
  const diff = createHash('sha256')
  const layer = await layout.putStream(mediaTypes[compression], compress(hashed(writeTar(sources), { diff, signal }), compression))
  const diffId = Digest.parse(`sha256:${diff.digest('hex')}`)
  checkRatio(
    sources.reduce((total, { entry }) => total + entry.sizeBytes, 0),
    layer,
  )

  const images = []
  for (const platform of platforms.length === 0 ? [anyPlatform] : platforms) {
    images.push({ platform, ...(await putImage(layout, { platform, layer, diffId })) })
  }
  const manifests = images.map(({ manifest }) => manifest)
  const root = platforms.length === 0 ? manifests[0] : await putIndex(layout, images)
  if (root === undefined) throw new Error('an image has at least one manifest')
  await layout.name(root, options.refName ?? null)
  return { root, manifests, blobs: [layer, ...images.map(({ config }) => config)], diffId, entries: sources.length, layout }
}

/** A worker takes what unpacks to much more than its size for a bomb (worker/src/storage/unpack/unpack-limits.ts). */
function checkRatio(bytes: number, layer: Descriptor): void {
  if (bytes <= 64 * 1024 ** 2 || bytes <= 200 * layer.size) return
  const message = 'it unpacks to more than 200 times its size, which workers refuse; pack it without compression (--compression none)'
  throw new FleetError({ code: 'invalid', retry: 'never', message })
}

/** Each once; in which order they were asked for makes no other image. */
function inOrder(platforms: readonly PackPlatform[]): PackPlatform[] {
  const byName = new Map(platforms.map((platform) => [`${platform.os}/${platform.architecture}`, platform]))
  return [...byName].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, platform]) => platform)
}

async function* hashed(
  chunks: AsyncIterable<Uint8Array>,
  { diff, signal }: { diff: ReturnType<typeof createHash>; signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    signal.throwIfAborted()
    diff.update(chunk)
    yield chunk
  }
}

async function putImage(
  layout: ImageLayout,
  { platform, layer, diffId }: { platform: PackPlatform; layer: Descriptor; diffId: Digest },
): Promise<{ config: Descriptor; manifest: Descriptor }> {
  const { architecture, os } = platform
  const config = await layout.putBytes(
    mediaTypes.config,
    jsonBytes({ architecture, os, config: {}, rootfs: { type: 'layers', diff_ids: [diffId] } }),
  )
  const manifest = jsonBytes({ schemaVersion: 2, mediaType: mediaTypes.manifest, config, layers: [layer] })
  return { config, manifest: await layout.putBytes(mediaTypes.manifest, manifest) }
}

async function putIndex(layout: ImageLayout, images: readonly { platform: PackPlatform; manifest: Descriptor }[]): Promise<Descriptor> {
  const manifests = images.map(({ platform: { architecture, os }, manifest }) => ({ ...manifest, platform: { architecture, os } }))
  return await layout.putBytes(mediaTypes.index, jsonBytes({ schemaVersion: 2, mediaType: mediaTypes.index, manifests }))
}
