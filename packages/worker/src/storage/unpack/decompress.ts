// Decompresses a layer. Further members and frames, which the formats allow, are read; any other data after the end is
// refused. Memory for the window is bounded.
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { constants, createGunzip, createZstdDecompress, type Gunzip, type ZstdDecompress } from 'node:zlib'
import { errorCode } from '@muster/host'
import { refusal } from './refusal.ts'

export type Compression = 'none' | 'gzip' | 'zstd' | 'bzip2' | 'xz'

export interface PackedLayer {
  readonly path: string
  readonly size: number
  readonly compression: Compression
}

export interface UnpackedChunk {
  readonly chunk: Buffer
  /** Bytes of the packed file consumed so far. */
  readonly packedBytes: number
}

type Sink = (unpacked: UnpackedChunk) => Promise<void> | void

const readBytes = 256 * 1024
const chunkSize = 512 * 1024
/** 128 MB, the default limit of the zstd command. */
const windowLogMax = 27

export async function decompress(packed: PackedLayer, sink: Sink, signal: AbortSignal): Promise<void> {
  switch (packed.compression) {
    case 'none': {
      let packedBytes = 0
      await pipeline(
        createReadStream(packed.path, { highWaterMark: chunkSize }),
        async (source: AsyncIterable<Buffer>) => {
          for await (const chunk of source) await sink({ chunk, packedBytes: (packedBytes += chunk.length) })
        },
        { signal },
      )
      return
    }
    case 'gzip': {
      if (packed.size === 0) throw refusal('compression', 'it is empty; expected gzip data')
      const used = await decompressRange({ packed, start: 0, end: packed.size, engine: createGunzip({ chunkSize }) }, sink, signal)
      if (used < packed.size) throw refusal('compression', 'there is data after the end of the gzip data')
      return
    }
    case 'zstd':
      return zstdFrames(packed, sink, signal)
    case 'bzip2':
      return decodeChunks((await import('./bzip2.ts')).bzip2Blocks, { packed, sink, signal })
    case 'xz':
      return decodeChunks((await import('./xz.ts')).xzChunks, { packed, sink, signal })
  }
}

type Decode = (fd: number) => Iterable<UnpackedChunk>

/** These decoders are synchronous, so each chunk lets a cancellation arrive. */
async function decodeChunks(
  decode: Decode,
  { packed, sink, signal }: { packed: PackedLayer; sink: Sink; signal: AbortSignal },
): Promise<void> {
  await using file = await open(packed.path, 'r')
  for (const chunk of decode(file.fd)) {
    await nextTurn()
    signal.throwIfAborted()
    await sink(chunk)
  }
}

/** Node's decoder reads one frame; parallel and indexing writers make many. */
async function zstdFrames(packed: PackedLayer, sink: Sink, signal: AbortSignal): Promise<void> {
  await using file = await open(packed.path, 'r')
  for (let at = 0; at === 0 || at < packed.size;) {
    const { kind, end } = await zstdFrameAt(file, at)
    if (end > packed.size) throw refusal('compression', 'the zstd data ends within a frame')
    if (kind === 'data') {
      const engine = createZstdDecompress({ chunkSize, params: { [constants.ZSTD_d_windowLogMax]: windowLogMax } })
      await decompressRange({ packed, start: at, end, engine }, sink, signal)
    }
    at = end
  }
}

interface PackedRange {
  readonly packed: PackedLayer
  readonly start: number
  readonly end: number
  readonly engine: Gunzip | ZstdDecompress
}

/** Returns the number of packed bytes that the engine consumed. */
async function decompressRange({ packed, start, end, engine }: PackedRange, sink: Sink, signal: AbortSignal): Promise<number> {
  const consume = async (source: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of source) await sink({ chunk, packedBytes: start + engine.bytesWritten })
  }
  try {
    await pipeline(createReadStream(packed.path, { start, end: end - 1, highWaterMark: readBytes }), engine, consume, { signal })
  } catch (error) {
    const code = errorCode(error)
    if (typeof code === 'string' && /^(Z_|ZSTD_|ERR_ZSTD|ERR_ZLIB)/.test(code) && error instanceof Error)
      throw refusal('compression', `cannot decompress the data (${error.message})`)
    throw error
  }
  return engine.bytesWritten
}

/** First bytes of the formats, and where they are. */
const signatures: readonly (readonly [format: Compression | 'zip', at: number, bytes: Buffer])[] = [
  ['gzip', 0, Buffer.from([0x1f, 0x8b])],
  ['zstd', 0, Buffer.from([0x28, 0xb5, 0x2f, 0xfd])],
  ['bzip2', 0, Buffer.from('BZh')],
  ['xz', 0, Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00])],
  ['zip', 0, Buffer.from([0x50, 0x4b, 0x03, 0x04])],
  ['zip', 0, Buffer.from([0x50, 0x4b, 0x05, 0x06])],
  ['none', 257, Buffer.from('ustar')],
]

/** By content, not by name: a zip archive, or the compression of a tar archive. */
export async function detectArchive(path: string): Promise<Compression | 'zip'> {
  await using file = await open(path, 'r')
  const head = await readAt(file, 0, 512)
  const [format] = signatures.find(([, at, bytes]) => head.subarray(at, at + bytes.length).equals(bytes)) ?? []
  if (format === undefined) throw refusal('compression', 'it is neither a tar nor a zip archive')
  return format
}

const compressions: Readonly<Record<string, Compression>> = {
  'application/vnd.oci.image.layer.v1.tar': 'none',
  'application/vnd.oci.image.layer.v1.tar+gzip': 'gzip',
  'application/vnd.oci.image.layer.v1.tar+zstd': 'zstd',
  'application/vnd.docker.image.rootfs.diff.tar': 'none',
  'application/vnd.docker.image.rootfs.diff.tar.gzip': 'gzip',
  'application/vnd.docker.image.rootfs.diff.tar.zstd': 'zstd',
  'application/x-tar': 'none',
  'application/gzip': 'gzip',
  'application/zstd': 'zstd',
}

export function compressionOf(mediaType: string): Compression {
  const compression = compressions[mediaType]
  if (compression === undefined) throw refusal('compression', `unsupported layer type ${JSON.stringify(mediaType.slice(0, 200))}`)
  return compression
}

// The end of a zstd frame (RFC 8878, section 3.1), read from its headers. The decoder must get exactly one frame: given
// more, it decodes or loses the rest, depending on how the bytes are chunked.

const zstdMagic = 0xfd2fb528
const rleBlock = 1
const reservedBlock = 3
const dictionaryBytes = [0, 1, 2, 4]
const contentSizeBytes = [0, 2, 4, 8]

interface ZstdFrame {
  readonly kind: 'data' | 'skippable'
  /** Beyond the end of the file when that was truncated. */
  readonly end: number
}

async function zstdFrameAt(file: FileHandle, at: number): Promise<ZstdFrame> {
  const start = await readAt(file, at, 8)
  const found = start.length < 8 ? 0 : start.readUInt32LE(0)
  if (found >>> 4 === 0x184d2a5) return { kind: 'skippable', end: at + 8 + start.readUInt32LE(4) }
  if (found !== zstdMagic) throw refusal('compression', at === 0 ? 'this is not zstd data' : 'there is data after the end of the zstd data')
  const descriptor = start.readUInt8(4)
  const isSingleSegment = (descriptor & 0x20) !== 0
  const checksumBytes = (descriptor & 0x04) === 0 ? 0 : 4
  const contentSize = descriptor >>> 6 === 0 && isSingleSegment ? 1 : (contentSizeBytes[descriptor >>> 6] ?? 0)
  const header = 5 + (isSingleSegment ? 0 : 1) + (dictionaryBytes[descriptor & 3] ?? 0) + contentSize
  return { kind: 'data', end: (await endOfBlocks(file, at + header)) + checksumBytes }
}

async function endOfBlocks(file: FileHandle, start: number): Promise<number> {
  for (let at = start; ;) {
    const bytes = await readAt(file, at, 3)
    if (bytes.length < 3) throw refusal('compression', 'the zstd data ends within a frame')
    const block = bytes.readUIntLE(0, 3)
    const type = (block >>> 1) & 3
    if (type === reservedBlock) throw refusal('compression', 'a zstd block has an unknown type')
    at += 3 + (type === rleBlock ? 1 : block >>> 3)
    if ((block & 1) === 1) return at
  }
}

async function readAt(file: FileHandle, at: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, at)
  return buffer.subarray(0, bytesRead)
}
