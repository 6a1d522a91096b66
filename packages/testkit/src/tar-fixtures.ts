// Layers as nobody should send them, byte by byte: tar archives whose every header field can be set wrong, and their
// compressions. Also the good ones, so that a test shows both with one hand.
import { createHash } from 'node:crypto'
import { gzipSync, zstdCompressSync } from 'node:zlib'

export interface TarEntry {
  readonly path: string
  /** The type flag; `0`, a regular file, if not given. */
  readonly type?: string
  readonly data?: string | Uint8Array
  readonly linkPath?: string
  readonly mode?: number
  readonly mtime?: number
  readonly prefix?: string
  /** The size in the header, independent of the data. */
  readonly size?: number
  /** Bytes of whole fields, as they are. */
  readonly raw?: {
    readonly path?: Uint8Array
    readonly size?: Uint8Array
    readonly magic?: string
    readonly checksum?: string
  }
}

const block = 512

export function tarHeader(entry: TarEntry): Buffer {
  const header = Buffer.alloc(block)
  const put = (value: string | Uint8Array, at: number, length: number): void =>
    void Buffer.from(typeof value === 'string' ? Buffer.from(value) : value).copy(header, at, 0, length)
  const octal = (value: number, length: number): string => `${value.toString(8).padStart(length - 1, '0')}\0`
  put(entry.raw?.path ?? entry.path, 0, 100)
  put(octal(entry.mode ?? (entry.type === '5' ? 0o755 : 0o644), 8), 100, 8)
  put(octal(0, 8), 108, 8)
  put(octal(0, 8), 116, 8)
  put(entry.raw?.size ?? octal(entry.size ?? bytesOf(entry.data).length, 12), 124, 12)
  put(octal(entry.mtime ?? 1_700_000_000, 12), 136, 12)
  put('        ', 148, 8)
  put(entry.type ?? '0', 156, 1)
  put(entry.linkPath ?? '', 157, 100)
  put(entry.raw?.magic ?? 'ustar\x0000', 257, 8)
  put(entry.prefix ?? '', 345, 155)
  const sum = header.reduce((total, byte) => total + byte, 0)
  put(entry.raw?.checksum ?? `${sum.toString(8).padStart(6, '0')}\0 `, 148, 8)
  return header
}

/** One entry with its data, padded; not the end of the archive. */
export function tarEntry(entry: TarEntry): Buffer {
  const data = bytesOf(entry.data)
  return Buffer.concat([tarHeader(entry), data, Buffer.alloc((block - (data.length % block)) % block)])
}

/** Pieces are entries, or bytes as they are. */
export function tar(pieces: readonly (TarEntry | Uint8Array)[]): Buffer {
  return Buffer.concat([tarWithoutEnd(pieces), Buffer.alloc(2 * block)])
}

export function tarWithoutEnd(pieces: readonly (TarEntry | Uint8Array)[]): Buffer {
  return Buffer.concat(pieces.map((piece) => (piece instanceof Uint8Array ? piece : tarEntry(piece))))
}

/** A PAX header (`g`: for all entries that follow). */
export function pax(records: Readonly<Record<string, string | Uint8Array>>, type: 'x' | 'g' = 'x'): Buffer {
  return tarEntry({
    path: 'PaxHeaders/entry',
    type,
    data: Buffer.concat(Object.entries(records).map(([key, value]) => paxRecord(key, value))),
  })
}

export function paxRecord(key: string, value: string | Uint8Array): Buffer {
  const rest = Buffer.concat([
    Buffer.from(` ${key}=`),
    Buffer.from(typeof value === 'string' ? Buffer.from(value) : value),
    Buffer.from('\n'),
  ])
  let length = rest.length
  while (length !== rest.length + String(length).length) length = rest.length + String(length).length
  return Buffer.concat([Buffer.from(String(length)), rest])
}

/** GNU's way to write a long name (`L`) or target (`K`), before the entry it is for. */
export function gnuLong(type: 'L' | 'K', name: string): Buffer {
  return tarEntry({ path: '././@LongLink', type, data: `${name}\0`, raw: { magic: 'ustar  \0' } })
}

export interface Layer {
  readonly bytes: Buffer
  readonly digest: string
  readonly diffId: string
  readonly mediaType: string
  readonly size: number
}

export type LayerCompression = 'none' | 'gzip' | 'zstd'

const mediaTypes: Readonly<Record<LayerCompression, string>> = {
  none: 'application/vnd.oci.image.layer.v1.tar',
  gzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
  zstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
}

export function layerOf(archive: Uint8Array, compression: LayerCompression = 'gzip'): Layer {
  const bytes = Buffer.from(
    compression === 'none' ? archive : compression === 'gzip' ? gzipSync(archive, { level: 1 }) : zstdCompressSync(archive),
  )
  return layerFrom(bytes, { archive, compression })
}

/** Packed bytes of one's own, for what no compressor would write. */
export function layerFrom(bytes: Buffer, { archive, compression }: { archive: Uint8Array; compression: LayerCompression }): Layer {
  return { bytes, digest: sha256(bytes), diffId: sha256(archive), mediaType: mediaTypes[compression], size: bytes.length }
}

/** One raw block in a frame that requires a window of `2 ** windowLog` bytes to be read with. */
export function zstdWithWindow(archive: Uint8Array, windowLog: number): Buffer {
  const blockHeader = Buffer.alloc(4)
  blockHeader.writeUInt32LE((archive.length << 3) | 1)
  return Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, (windowLog - 10) << 3]), blockHeader.subarray(0, 3), archive])
}

export function sha256(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

function bytesOf(data: string | Uint8Array | undefined): Buffer {
  return Buffer.from(typeof data === 'string' ? Buffer.from(data) : (data ?? Buffer.alloc(0)))
}
