// Compression that gives the same bytes for the same input: the compressor is fed pieces of one size, whatever the sizes
// in which files were read, because where pieces end can show in what comes out.
import { Readable } from 'node:stream'
import { constants, createGzip, createZstdCompress } from 'node:zlib'

/**
 * `zstd` is the same on every machine with the same version of Node; `none` is the same for ever. `gzip` is what the
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
