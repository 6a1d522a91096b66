// Reads a zip archive from its central directory and passes its entries on as those of a tar archive. Stored and deflated entries
// are read; encrypted and overlapping ones, and other methods, are refused. Sizes and checksums of all entries are verified.
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { crc32, createInflateRaw } from 'node:zlib'
import { errorCode } from '@muster/host'
import { quote, refusal } from './refusal.ts'
import type { TarHeader, TarSink } from './tar-reader.ts'

const [endMark, end64Mark, locatorMark, entryMark, localMark] = [0x06054b50, 0x06064b50, 0x07064b50, 0x02014b50, 0x04034b50]
/** The end record, with the longest comment. */
const tailBytes = 22 + 65_535
/** 200,000 entries with names of 300 bytes. */
const largestDirectoryBytes = 80 * 1024 ** 2
const chunkBytes = 256 * 1024
/** A link's target is its content. */
const largestTargetBytes = 4096

export type OnUnpacked = (unpackedBytes: number, packedBytes: number) => Promise<void>

type ZipOptions = Readonly<{ path: string; size: number; sink: TarSink; onChunk: OnUnpacked; signal: AbortSignal }>

export async function readZip({ path, size, sink, onChunk, signal }: ZipOptions): Promise<void> {
  await using file = await open(path, 'r')
  const entries = (await readDirectory(file, size)).toSorted((a, b) => a.at - b.at)
  let [after, unpacked] = [0, 0]
  for (const entry of entries) {
    signal.throwIfAborted()
    sink.header()
    if (entry.at < after) throw refusal('archive_header', `${quote(entry.path)} overlaps another entry`)
    const start = await dataStart(file, entry)
    after = start + entry.packedSize
    if (after > size) throw refusal('archive_truncated', 'the archive ends too early')
    await readEntry({ path, entry, start, signal }, sink, async (bytes) => await onChunk(unpacked + bytes, after))
    unpacked += entry.size
  }
}

interface ZipEntry {
  readonly path: string
  readonly method: number
  readonly crc: number
  readonly packedSize: number
  readonly size: number
  readonly mode: number
  /** The position of its local header. */
  readonly at: number
}

async function readDirectory(file: FileHandle, size: number): Promise<ZipEntry[]> {
  const tail = await readAt(file, Math.max(0, size - tailBytes), Math.min(size, tailBytes))
  const end = tail.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]))
  if (end < 0 || tail.length - end < 22 || tail.readUInt32LE(end) !== endMark) throw refusal('archive_header', 'this is not a zip archive')
  const { offset, bytes } = await directoryPlace(file, { tail, end })
  if (bytes > largestDirectoryBytes || offset + bytes > size) throw refusal('archive_header', 'the directory of the archive is not valid')
  const directory = await readAt(file, offset, bytes)
  const entries: ZipEntry[] = []
  for (let at = 0; at < directory.length;) {
    if (directory.length - at < 46 || directory.readUInt32LE(at) !== entryMark)
      throw refusal('archive_header', 'the directory of the archive is not valid')
    const lengths = [28, 30, 32].map((field) => directory.readUInt16LE(at + field))
    const next = at + 46 + lengths.reduce((sum, each) => sum + each, 0)
    if (next > directory.length) throw refusal('archive_header', 'the directory of the archive is not valid')
    entries.push(parseEntry(directory.subarray(at, next)))
    at = next
  }
  return entries
}

async function directoryPlace(file: FileHandle, { tail, end }: { tail: Buffer; end: number }): Promise<{ offset: number; bytes: number }> {
  const [bytes, offset] = [tail.readUInt32LE(end + 12), tail.readUInt32LE(end + 16)]
  const hasLocator = end >= 20 && tail.readUInt32LE(end - 20) === locatorMark
  if (!hasLocator) return { offset, bytes }
  const record = await readAt(file, wide(tail, end - 12), 56)
  if (record.length < 56 || record.readUInt32LE(0) !== end64Mark)
    throw refusal('archive_header', 'the directory of the archive is not valid')
  return { bytes: wide(record, 40), offset: wide(record, 48) }
}

function wide(bytes: Buffer, at: number): number {
  const value = bytes.readBigUInt64LE(at)
  if (value > Number.MAX_SAFE_INTEGER) throw refusal('archive_size', 'a size is too large')
  return Number(value)
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const absent = 0xffffffff

function parseEntry(bytes: Buffer): ZipEntry {
  const nameBytes = bytes.readUInt16LE(28)
  const name = bytes.subarray(46, 46 + nameBytes)
  const path = decodeName(name)
  if ((bytes.readUInt16LE(8) & 1) !== 0) throw refusal('compression', `${quote(path)} is encrypted`)
  const extra = bytes.subarray(46 + nameBytes, 46 + nameBytes + bytes.readUInt16LE(30))
  const [size, packedSize, at] = wideFields(extra, [bytes.readUInt32LE(24), bytes.readUInt32LE(20), bytes.readUInt32LE(42)])
  const isUnix = bytes.readUInt8(5) === 3
  return {
    path,
    method: bytes.readUInt16LE(10),
    crc: bytes.readUInt32LE(16),
    ...{ size, packedSize, at },
    mode: isUnix ? bytes.readUInt16LE(40) : 0,
  }
}

function decodeName(name: Buffer): string {
  try {
    return decoder.decode(name)
  } catch {
    throw refusal('path_encoding', `the name ${quote(name.toString('latin1'))} is not UTF-8`)
  }
}

/** Fields that do not fit 32 bits are in an extra field, in this order. */
function wideFields(extra: Buffer, fields: readonly [number, number, number]): [number, number, number] {
  let block: Buffer = Buffer.alloc(0)
  for (let at = 0; at + 4 <= extra.length;) {
    const length = extra.readUInt16LE(at + 2)
    if (extra.readUInt16LE(at) === 1) block = extra.subarray(at + 4, at + 4 + length)
    at += 4 + length
  }
  let used = 0
  const read = (field: number): number => {
    if (field !== absent) return field
    if (block.length < used + 8) throw refusal('archive_size', 'a size is missing')
    used += 8
    return wide(block, used - 8)
  }
  return [read(fields[0]), read(fields[1]), read(fields[2])]
}

async function dataStart(file: FileHandle, { at, path }: ZipEntry): Promise<number> {
  const header = await readAt(file, at, 30)
  if (header.length < 30 || header.readUInt32LE(0) !== localMark)
    throw refusal('archive_header', `${quote(path)} is not where it should be`)
  return at + 30 + header.readUInt16LE(26) + header.readUInt16LE(28)
}

type EntryQuery = Readonly<{ path: string; entry: ZipEntry; start: number; signal: AbortSignal }>

async function readEntry(
  { path, entry, start, signal }: EntryQuery,
  sink: TarSink,
  onBytes: (bytes: number) => Promise<void>,
): Promise<void> {
  const header = headerOf(entry)
  const isLink = header.type === '2'
  if (isLink && entry.size > largestTargetBytes) throw refusal('symlink_escape', `${quote(entry.path)} has no usable target`)
  const target: Buffer[] = []
  if (!isLink) sink.entry(header)
  let [bytes, crc] = [0, 0]
  await unpackData({ path, entry, start, signal }, async (chunk) => {
    bytes += chunk.length
    if (bytes > entry.size) throw refusal('archive_size', `${quote(entry.path)} is larger than its directory states`)
    crc = crc32(chunk, crc)
    if (isLink) target.push(chunk)
    else sink.data(chunk)
    await onBytes(bytes)
  })
  if (bytes !== entry.size || crc !== entry.crc)
    throw refusal('archive_size', `${quote(entry.path)} has another content than its directory states`)
  if (isLink) sink.entry({ ...header, size: 0, linkPath: decodeName(Buffer.concat(target)) })
  sink.end()
}

function headerOf({ path, size, mode }: ZipEntry): TarHeader {
  const kind = mode & 0o170000
  const type = path.endsWith('/') ? '5' : kind === 0o120000 ? '2' : '0'
  if (kind !== 0 && ![0o100000, 0o040000, 0o120000].includes(kind)) throw refusal('entry_type', `${quote(path)} is a special file`)
  const usual = type === '5' ? 0o755 : 0o644
  return { type, path, linkPath: '', size: type === '0' ? size : 0, mode: mode & 0o777 || usual, mtime: 0 }
}

async function unpackData({ path, entry, start, signal }: EntryQuery, consume: (chunk: Buffer) => Promise<void>): Promise<void> {
  if (entry.packedSize === 0) return
  const source = createReadStream(path, { start, end: start + entry.packedSize - 1, highWaterMark: chunkBytes })
  const sink = async (chunks: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of chunks) await consume(chunk)
  }
  try {
    if (entry.method === 0) await pipeline(source, sink, { signal })
    else if (entry.method === 8) await pipeline(source, createInflateRaw({ chunkSize: chunkBytes }), sink, { signal })
    else throw refusal('compression', `${quote(entry.path)} is packed with the unsupported method ${entry.method}`)
  } catch (error) {
    if (/^(?:Z_|ERR_ZLIB)/.test(String(errorCode(error)))) throw refusal('compression', `cannot decompress ${quote(entry.path)}`)
    throw error
  } finally {
    source.destroy()
  }
}

async function readAt(file: FileHandle, at: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, at)
  return buffer.subarray(0, bytesRead)
}
