// Packs a directory as an OCI image: the same files give the same digest on any machine. Owner, times, order of the file system
// and modes (except the executable bit) are not included.
import { createHash } from 'node:crypto'
import { defaultUnpackLimits, Digest, FleetError } from '@muster/protocol'
import { type BlobSink, type Descriptor, digestOf, type ImageLayout, openLayout } from './image-layout.ts'
import { anyPlatform, type Compression, type PackPlatform, putImage, putIndex, putLayer } from './put-image.ts'
import { walkDirectory } from './walk-directory.ts'

export interface PackOptions {
  /** An OCI image layout; created if missing. */
  readonly layout: string
  /** The name of the image in the layout: a tag. */
  readonly refName?: string
  /** None: one image that names no platform and suits every node. Any: an index with one image for each. */
  readonly platforms?: readonly PackPlatform[]
  readonly compression?: Compression
  readonly signal?: AbortSignal
}

export interface PackedImage {
  /** The manifest or the index: the target of a reference by digest. */
  readonly root: Descriptor
  readonly manifests: readonly Descriptor[]
  /** All blobs of the manifests. */
  readonly blobs: readonly Descriptor[]
  /** sha256 of the uncompressed layer, independent of the compression. */
  readonly diffId: Digest
  readonly entries: number
  readonly layout: ImageLayout
}

export async function packDirectory(directory: string, options: PackOptions): Promise<PackedImage> {
  const { compression = 'zstd', signal = new AbortController().signal } = options
  const platforms = inOrder(options.platforms ?? [])
  const sources = await walkDirectory(directory, signal)
  const layout = await openLayout(options.layout)
  const { layer, diffId } = await putLayer(layout, sources, { compression, signal })
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

/** A worker refuses a layer that unpacks to a large multiple of its size. */
function checkRatio(bytes: number, layer: Descriptor): void {
  const { ratio, ratioFreeBytes } = defaultUnpackLimits
  if (bytes <= ratioFreeBytes || bytes <= ratio * layer.size) return
  const message = `it unpacks to more than ${ratio} times its size, which workers refuse; pack it without compression (--compression none)`
  throw new FleetError({ code: 'invalid', retry: 'never', message })
}

/** Each once, sorted: the order of the request does not change the image. */
function inOrder(platforms: readonly PackPlatform[]): PackPlatform[] {
  const byName = new Map(platforms.map((platform) => [`${platform.os}/${platform.architecture}`, platform]))
  return [...byName].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, platform]) => platform)
}

// The digest that a directory has as a packed image, without packing it: every byte is hashed and none is kept.
/** Uncompressed: the only form that is the same with every version of Node. */
export async function packedDigest(directory: string, signal: AbortSignal): Promise<Digest> {
  const { layer, diffId } = await putLayer(hashOnly, await walkDirectory(directory, signal), { compression: 'none', signal })
  const { manifest } = await putImage(hashOnly, { platform: anyPlatform, layer, diffId })
  return manifest.digest
}

const hashOnly: BlobSink = {
  putBytes: async (mediaType, bytes) => ({ mediaType, digest: digestOf(bytes), size: bytes.length }),
  async putStream(mediaType, chunks) {
    const hash = createHash('sha256')
    let size = 0
    for await (const chunk of chunks) {
      hash.update(chunk)
      size += chunk.length
    }
    return { mediaType, digest: Digest.parse(`sha256:${hash.digest('hex')}`), size }
  },
}

// Packs directories, one per platform, into one index with an image for each.
/** In the order given. */
export async function packPlatforms(
  parts: readonly { directory: string; platform: PackPlatform }[],
  { layout: directory, refName, signal }: { layout: string; refName: string; signal: AbortSignal },
): Promise<Pick<PackedImage, 'root' | 'manifests' | 'blobs' | 'layout'>> {
  const layout = await openLayout(directory)
  const images = []
  const blobs: Descriptor[] = []
  for (const part of parts) {
    const sources = await walkDirectory(part.directory, signal)
    const { layer, diffId } = await putLayer(layout, sources, { compression: 'zstd', signal })
    const image = await putImage(layout, { platform: part.platform, layer, diffId })
    images.push({ platform: part.platform, ...image })
    blobs.push(layer, image.config)
  }
  const root = await putIndex(layout, images)
  await layout.name(root, refName)
  return { root, manifests: images.map(({ manifest }) => manifest), blobs, layout }
}
