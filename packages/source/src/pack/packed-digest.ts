// The digest that a directory has as a packed image, without packing it: every byte is hashed and none is kept.
import { createHash } from 'node:crypto'
import { Digest } from '@muster/protocol'
import { digestOf, type BlobSink } from './image-layout.ts'
import { anyPlatform, putImage, putLayer } from './put-image.ts'
import { walkDirectory } from './walk-directory.ts'

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
