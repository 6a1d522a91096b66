// Reads xz archives, which Node does not offer: streams of blocks, each with its checksum (CRC-32, CRC-64, SHA-256 or none). Only
// LZMA2 is accepted; filters for programs of some processors are refused.
import { createHash } from 'node:crypto'
import { readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { UnpackedChunk } from './decompress.ts'
import { corruptXz, Lzma2 } from './lzma2.ts'

const readBytes = 256 * 1024
const magic = Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00])
const lzma2Filter = 0x21
/** Twice the largest preset of the xz command. */
const largestWindow = 128 * 1024 ** 2

class FileBytes {
  readonly #fd: number
  #buffer: Buffer = Buffer.alloc(0)
  #at = 0
  #filePosition = 0
  /** Bytes taken from the file. */
  count = 0

  constructor(fd: number) {
    this.#fd = fd
  }

  bytes(count: number): Buffer {
    while (this.#buffer.length - this.#at < count) {
      const more = Buffer.allocUnsafe(readBytes)
      const read = readSync(this.#fd, more, 0, readBytes, this.#filePosition)
      if (read === 0) throw corruptXz('it ends too early')
      this.#filePosition += read
      this.#buffer = Buffer.concat([this.#buffer.subarray(this.#at), more.subarray(0, read)])
      this.#at = 0
    }
    this.count += count
    this.#at += count
    return this.#buffer.subarray(this.#at - count, this.#at)
  }

  byte = (): number => this.bytes(1)[0] ?? 0

  isAtEnd(): boolean {
    if (this.#at < this.#buffer.length) return false
    return readSync(this.#fd, Buffer.alloc(1), 0, 1, this.#filePosition) === 0
  }
}

/** The unpacked chunks of all streams in the file. */
export function* xzChunks(fd: number): Generator<UnpackedChunk> {
  const file = new FileBytes(fd)
  do {
    const header = Buffer.from(file.bytes(12))
    if (!header.subarray(0, 6).equals(magic) || crc32(header.subarray(6, 8)) !== header.readUInt32LE(8))
      throw corruptXz('its header is damaged')
    const kind = header[7] ?? 0
    let blocks = 0
    for (let size = file.byte(); size !== 0; size = file.byte(), blocks++) yield* readBlock(file, { size, kind })
    readIndex(file, { blocks, flags: header.subarray(6, 8) })
    while (!file.isAtEnd() && file.count % 4 !== 0) file.byte()
  } while (!file.isAtEnd())
}

function* readBlock(file: FileBytes, { size, kind }: { size: number; kind: number }): Generator<UnpackedChunk> {
  const header = Buffer.concat([Buffer.from([size]), file.bytes((size + 1) * 4 - 1)])
  if (crc32(header.subarray(0, -4)) !== header.readUInt32LE(header.length - 4)) throw corruptXz('the header of a block is damaged')
  const decoder = new Lzma2(windowOf(header))
  const start = file.count
  const check = createCheck(kind)
  for (let chunk = decoder.next(file); chunk !== null; chunk = decoder.next(file)) {
    check.update(chunk)
    yield { chunk, packedBytes: file.count }
  }
  while ((file.count - start) % 4 !== 0) if (file.byte() !== 0) throw corruptXz('a block has other bytes after its end')
  if (!file.bytes(check.bytes).equals(check.digest())) throw corruptXz('a block has a wrong checksum')
}

/** The size of the window that the only filter asks for. */
function windowOf(header: Buffer): number {
  const flags = header[1] ?? 0
  let at = 2
  const number = (): number => {
    let [value, factor] = [0, 1]
    for (let count = 0; count < 9; count++, factor *= 128) {
      const byte = header[at++] ?? 0
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
    }
    throw corruptXz('a number is too large')
  }
  if ((flags & 0x3f) !== 0) throw corruptXz('it uses filters that are not supported')
  if ((flags & 0x40) !== 0) number()
  if ((flags & 0x80) !== 0) number()
  if (number() !== lzma2Filter || number() !== 1) throw corruptXz('it uses a filter that is not supported')
  const bits = header[at] ?? 0
  const bytes = bits > 39 ? Infinity : (2 | (bits & 1)) * 2 ** ((bits >> 1) + 11)
  if (bytes > largestWindow) throw corruptXz(`it needs a window of more than ${largestWindow} bytes`)
  return bytes
}

interface Check {
  readonly bytes: number
  update(chunk: Buffer): void
  digest(): Buffer
}

function createCheck(kind: number): Check {
  if (kind === 0) return { bytes: 0, update: () => undefined, digest: () => Buffer.alloc(0) }
  if (kind === 10) {
    const hash = createHash('sha256')
    return { bytes: 32, update: (chunk) => void hash.update(chunk), digest: () => hash.digest() }
  }
  if (kind === 4) return createCrc64()
  if (kind !== 1) throw corruptXz('it has an unknown kind of checksum')
  let crc = 0
  const digest = (): Buffer => {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32LE(crc)
    return bytes
  }
  return { bytes: 4, update: (chunk) => void (crc = crc32(chunk, crc)), digest }
}

/** In two halves: numbers of 64 bits are slow. */
const crc64Table = Array.from({ length: 256 }, (_, byte): readonly [number, number] => {
  let [low, high] = [byte, 0]
  for (let bit = 0; bit < 8; bit++) {
    const carry = low & 1
    low = ((low >>> 1) | (high << 31)) >>> 0
    high >>>= 1
    if (carry === 1) [low, high] = [(low ^ 0xd7870f42) >>> 0, (high ^ 0xc96c5795) >>> 0]
  }
  return [low, high]
})
const crc64Low = Uint32Array.from(crc64Table, ([low]) => low)
const crc64High = Uint32Array.from(crc64Table, ([, high]) => high)

function createCrc64(): Check {
  let [low, high] = [0xffffffff, 0xffffffff]
  return {
    bytes: 8,
    update(chunk) {
      for (const byte of chunk) {
        const at = (low ^ byte) & 0xff
        low = (((low >>> 8) | (high << 24)) ^ (crc64Low[at] ?? 0)) >>> 0
        high = ((high >>> 8) ^ (crc64High[at] ?? 0)) >>> 0
      }
    },
    digest() {
      const bytes = Buffer.alloc(8)
      bytes.writeUInt32LE(~low >>> 0, 0)
      bytes.writeUInt32LE(~high >>> 0, 4)
      return bytes
    },
  }
}

/** The index lists the blocks again; its number of blocks and its checksum are compared, and the end of the stream. */
function readIndex(file: FileBytes, { blocks, flags }: { blocks: number; flags: Buffer }): void {
  const bytes: number[] = [0]
  const next = (): number => {
    const byte = file.byte()
    bytes.push(byte)
    return byte
  }
  const number = (): number => {
    let [value, factor] = [0, 1]
    for (let count = 0; count < 9; count++, factor *= 128) {
      const byte = next()
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
    }
    throw corruptXz('a number is too large')
  }
  if (number() !== blocks) throw corruptXz('it has another number of blocks than it states')
  for (let record = 0; record < blocks * 2; record++) number()
  while (bytes.length % 4 !== 0) if (next() !== 0) throw corruptXz('its index is damaged')
  if (crc32(Buffer.from(bytes)) !== file.bytes(4).readUInt32LE()) throw corruptXz('its index is damaged')
  const footer = Buffer.from(file.bytes(12))
  if (!footer.subarray(8, 10).equals(flags) || footer.toString('latin1', 10) !== 'YZ') throw corruptXz('its end is damaged')
  if (crc32(footer.subarray(4, 10)) !== footer.readUInt32LE(0)) throw corruptXz('its end is damaged')
}
