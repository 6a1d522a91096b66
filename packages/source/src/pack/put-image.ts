// The parts of an image, from the files of a directory: its layer, the config and the manifest for each platform, the index.
import { createHash } from 'node:crypto'
import { Digest } from '@muster/protocol'
import { compress, type Compression } from './compress.ts'
import { jsonBytes, type BlobSink, type Descriptor } from './image-layout.ts'
import { writeTar, type TarSource } from './tar-writer.ts'

export interface PackPlatform {
  readonly os: string
  readonly architecture: string
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

export async function putLayer(
  sink: BlobSink,
  sources: Iterable<TarSource>,
  { compression, signal }: { compression: Compression; signal: AbortSignal },
): Promise<{ layer: Descriptor; diffId: Digest }> {
  const diff = createHash('sha256')
  const layer = await sink.putStream(mediaTypes[compression], compress(hashed(writeTar(sources), { diff, signal }), compression))
  return { layer, diffId: Digest.parse(`sha256:${diff.digest('hex')}`) }
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

export async function putImage(
  sink: BlobSink,
  { platform, layer, diffId }: { platform: PackPlatform; layer: Descriptor; diffId: Digest },
): Promise<{ config: Descriptor; manifest: Descriptor }> {
  const { architecture, os } = platform
  const config = await sink.putBytes(
    mediaTypes.config,
    jsonBytes({ architecture, os, config: {}, rootfs: { type: 'layers', diff_ids: [diffId] } }),
  )
  const manifest = jsonBytes({ schemaVersion: 2, mediaType: mediaTypes.manifest, config, layers: [layer] })
  return { config, manifest: await sink.putBytes(mediaTypes.manifest, manifest) }
}

export async function putIndex(sink: BlobSink, images: readonly { platform: PackPlatform; manifest: Descriptor }[]): Promise<Descriptor> {
  const manifests = images.map(({ platform: { architecture, os }, manifest }) => ({ ...manifest, platform: { architecture, os } }))
  return await sink.putBytes(mediaTypes.index, jsonBytes({ schemaVersion: 2, mediaType: mediaTypes.index, manifests }))
}
