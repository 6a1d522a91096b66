// The parts of an image, from the files of a directory: its layer, the config and the manifest for each platform, the index.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { constants, createGzip, createZstdCompress } from 'node:zlib'
import { Digest } from '@muster/protocol'
import { type BlobSink, type Descriptor, jsonBytes } from './image-layout.ts'
import { type TarSource, writeTar } from './tar-writer.ts'

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

/** The platform in the config of an image for every machine: both fields are required, and empty. */
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

// Compression with the same bytes for the same input: the compressor gets chunks of one size, whatever the sizes of the
// reads, because chunk boundaries can affect the output.
/**
 * `zstd` is the same on every machine with the same version of Node; `none` is the same forever. `gzip` is what the
 * oldest tools understand; it may differ between processor families.
 */
export type Compression = 'zstd' | 'gzip' | 'none'

const pieceBytes = 128 * 1024

export function compress(chunks: AsyncIterable<Uint8Array>, compression: Compression): AsyncIterable<Uint8Array> {
  const pieces = inPieces(chunks)
  switch (compression) {
    case 'none':
      return pieces
    case 'gzip':
      return piped(pieces, createGzip({ level: 6, chunkSize: pieceBytes }))
    case 'zstd':
      return piped(pieces, createZstdCompress({ chunkSize: pieceBytes, params: { [constants.ZSTD_c_compressionLevel]: 3 } }))
  }
}

/** An error of the source ends the compressor, and with it the reader. */
function piped(pieces: AsyncIterable<Uint8Array>, compressor: NodeJS.ReadWriteStream & AsyncIterable<unknown>): AsyncIterable<Uint8Array> {
  return Readable.from(pieces, { objectMode: false }).compose(compressor) as AsyncIterable<Uint8Array>
}

async function* inPieces(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let piece = Buffer.allocUnsafe(pieceBytes)
  let filled = 0
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length;) {
      const taken = Math.min(chunk.length - at, pieceBytes - filled)
      piece.set(chunk.subarray(at, at + taken), filled)
      filled += taken
      at += taken
      if (filled < pieceBytes) continue
      yield piece
      piece = Buffer.allocUnsafe(pieceBytes)
      filled = 0
    }
  }
  if (filled > 0) yield piece.subarray(0, filled)
}
