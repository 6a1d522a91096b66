// Decodes bzip2, which Node does not offer: Huffman codes, run lengths, move to front, and the inverse of the Burrows–Wheeler
// transform, block by block (at most 900 kB each). Every checksum is verified; randomized blocks, which no writer has made for
// decades, are refused.
import { readSync } from 'node:fs'
import type { UnpackedChunk } from './decompress.ts'
import { refusal } from './refusal.ts'

const readBytes = 256 * 1024
const blockMagic = 0x314159265359
const endMagic = 0x177245385090
const mostSymbols = 258
const groupSymbols = 50
const mostCodeBits = 20

/** Reads bits from an open file, the highest bit of each byte first. */
class BitReader {
  readonly #fd: number
  readonly #buffer = Buffer.allocUnsafe(readBytes)
  #length = 0
  #at = 0
  #held = 0
  #heldBits = 0
  /** Bytes taken from the file. */
  bytes = 0

  constructor(fd: number) {
    this.#fd = fd
  }

  /** -1 at the end of the file. */
  #next(): number {
    if (this.#at === this.#length) {
      this.#length = readSync(this.#fd, this.#buffer, 0, readBytes, this.bytes)
      this.#at = 0
      if (this.#length === 0) return -1
    }
    this.bytes++
    return this.#buffer[this.#at++] ?? -1
  }

  bits(count: number): number {
    let value = 0
    for (let left = count; left > 0;) {
      if (this.#heldBits === 0) {
        this.#held = this.#next()
        if (this.#held < 0) throw corrupt('it ends too early')
        this.#heldBits = 8
      }
      const take = Math.min(left, this.#heldBits)
      this.#heldBits -= take
      value = value * 2 ** take + ((this.#held >>> this.#heldBits) & ((1 << take) - 1))
      left -= take
    }
    return value
  }

  /** Skips to the next byte; true when the file has ended there. */
  alignedAtEnd(): boolean {
    this.#heldBits = 0
    this.#held = this.#next()
    if (this.#held < 0) return true
    this.#heldBits = 8
    return false
  }
}

const corrupt = (what: string): Error => refusal('compression', `the bzip2 data is not valid: ${what}`)

/** The unpacked blocks of all streams in the file. */
export function* bzip2Blocks(fd: number): Generator<UnpackedChunk> {
  const reader = new BitReader(fd)
  do {
    if (reader.bits(24) !== 0x425a68) throw corrupt('it does not begin with BZh')
    const level = reader.bits(8) - 0x30
    if (level < 1 || level > 9) throw corrupt('it has an unknown block size')
    const positions = new Uint32Array(level * 100_000)
    let combined = 0
    for (;;) {
      const magic = reader.bits(48)
      if (magic === endMagic) break
      if (magic !== blockMagic) throw corrupt('a block begins with other bytes')
      const expected = reader.bits(32)
      const chunk = readBlock(reader, positions)
      const crc = checksum(chunk)
      if (crc !== expected) throw corrupt('a block has a wrong checksum')
      combined = (((combined << 1) | (combined >>> 31)) ^ crc) >>> 0
      yield { chunk, packedBytes: reader.bytes }
    }
    if (reader.bits(32) !== combined) throw corrupt('it has a wrong checksum')
  } while (!reader.alignedAtEnd())
}

function readBlock(reader: BitReader, positions: Uint32Array): Buffer {
  if (reader.bits(1) !== 0) throw corrupt('a block is randomized')
  const start = reader.bits(24)
  const symbols = readSymbols(reader)
  const { tables, selectors } = readTables(reader, symbols.length + 2)
  const length = readRuns(reader, { symbols, tables, selectors, positions })
  if (start >= length) throw corrupt('a block begins outside itself')
  return undoTransform(positions, { length, start })
}

function readSymbols(reader: BitReader): number[] {
  const groups = reader.bits(16)
  const symbols: number[] = []
  for (let group = 0; group < 16; group++) {
    if ((groups & (0x8000 >>> group)) === 0) continue
    const used = reader.bits(16)
    for (let at = 0; at < 16; at++) if ((used & (0x8000 >>> at)) !== 0) symbols.push(group * 16 + at)
  }
  if (symbols.length === 0) throw corrupt('a block has no symbols')
  return symbols
}

/** Canonical codes: for each length the first code above it, and the offset of its symbols. */
interface CodeTable {
  readonly limits: Int32Array
  readonly offsets: Int32Array
  readonly symbols: Uint16Array
  readonly shortest: number
}

function readTables(reader: BitReader, alphabet: number): { tables: CodeTable[]; selectors: Uint8Array } {
  const count = reader.bits(3)
  const selectorCount = reader.bits(15)
  if (count < 2 || count > 6 || selectorCount === 0) throw corrupt('a block has an impossible number of tables')
  const order = Array.from({ length: count }, (_, index) => index)
  const selectors = new Uint8Array(selectorCount)
  for (let at = 0; at < selectorCount; at++) {
    let place = 0
    while (reader.bits(1) === 1) if (++place >= count) throw corrupt('a block uses a table that it does not have')
    const [chosen = 0] = order.splice(place, 1)
    order.unshift(chosen)
    selectors[at] = chosen
  }
  return { tables: Array.from({ length: count }, () => readTable(reader, alphabet)), selectors }
}

function readTable(reader: BitReader, alphabet: number): CodeTable {
  const lengths = new Uint8Array(alphabet)
  let length = reader.bits(5)
  for (let symbol = 0; symbol < alphabet; symbol++) {
    for (;;) {
      if (length < 1 || length > mostCodeBits) throw corrupt('a code has an impossible length')
      if (reader.bits(1) === 0) break
      length += reader.bits(1) === 0 ? 1 : -1
    }
    lengths[symbol] = length
  }
  const symbols = new Uint16Array(alphabet)
  const [limits, offsets] = [new Int32Array(mostCodeBits + 2), new Int32Array(mostCodeBits + 2)]
  let [code, placed] = [0, 0]
  for (let bits = 1; bits <= mostCodeBits; bits++) {
    offsets[bits] = placed - code
    for (let symbol = 0; symbol < alphabet; symbol++)
      if (lengths[symbol] === bits) {
        symbols[placed++] = symbol
        code++
      }
    limits[bits] = code
    code *= 2
  }
  return { limits, offsets, symbols, shortest: Math.min(...lengths) }
}

interface RunsQuery {
  readonly symbols: readonly number[]
  readonly tables: readonly CodeTable[]
  readonly selectors: Uint8Array
  readonly positions: Uint32Array
}

/** Undoes the codes, the runs and the move to front; returns the length of the block. The low byte of each position is its symbol. */
function readRuns(reader: BitReader, { symbols, tables, selectors, positions }: RunsQuery): number {
  const front = [...symbols]
  const end = symbols.length + 1
  if (end + 1 > mostSymbols) throw corrupt('a block has too many symbols')
  let [length, run, weight, group, left] = [0, 0, 1, 0, 0]
  let table: CodeTable | undefined
  const flush = (): void => {
    if (run === 0) return
    if (run > positions.length - length) throw corrupt('a block is longer than it may be')
    positions.fill(front[0] ?? 0, length, length + run)
    length += run
    run = 0
    weight = 1
  }
  for (;;) {
    if (left === 0) {
      table = tables[selectors[group++] ?? tables.length]
      if (table === undefined) throw corrupt('a block has too few selectors')
      left = groupSymbols
    }
    left--
    const symbol = table === undefined ? end : readCode(reader, table)
    if (symbol <= 1) {
      run += weight * (symbol + 1)
      weight *= 2
      if (run > positions.length) throw corrupt('a block is longer than it may be')
      continue
    }
    flush()
    if (symbol === end) return length
    if (length >= positions.length) throw corrupt('a block is longer than it may be')
    const [moved = 0] = front.splice(symbol - 1, 1)
    front.unshift(moved)
    positions[length++] = moved
  }
}

function readCode(reader: BitReader, { limits, offsets, symbols, shortest }: CodeTable): number {
  let code = reader.bits(shortest)
  for (let bits = shortest; bits <= mostCodeBits; bits++) {
    if (code < (limits[bits] ?? 0)) return symbols[code + (offsets[bits] ?? 0)] ?? 0
    code = code * 2 + reader.bits(1)
  }
  throw corrupt('a code is unknown')
}

/** Inverts the Burrows–Wheeler transform, then the run lengths of equal bytes. */
function undoTransform(positions: Uint32Array, { length, start }: { length: number; start: number }): Buffer {
  const starts = new Uint32Array(257)
  const count = (at: number, more: number): number => (starts[at] = (starts[at] ?? 0) + more)
  for (let at = 0; at < length; at++) count(((positions[at] ?? 0) & 0xff) + 1, 1)
  for (let byte = 1; byte <= 256; byte++) count(byte, starts[byte - 1] ?? 0)
  for (let at = 0; at < length; at++) {
    const byte = (positions[at] ?? 0) & 0xff
    const place = count(byte, 1) - 1
    positions[place] = (positions[place] ?? 0) | (at << 8)
  }
  return undoRuns(positions, { length, first: (positions[start] ?? 0) >>> 8 })
}

/** Four equal bytes are followed by the number of further ones. */
function undoRuns(positions: Uint32Array, { length, first }: { length: number; first: number }): Buffer {
  let out = Buffer.allocUnsafe(Math.max(1024, length * 2))
  let [size, equal, last, next] = [0, 0, -1, first]
  for (let at = 0; at < length; at++) {
    const entry = positions[next] ?? 0
    const byte = entry & 0xff
    next = entry >>> 8
    if (size + 256 > out.length) out = Buffer.concat([out], out.length * 2)
    if (equal === 4) {
      out.fill(last, size, size + byte)
      size += byte
      equal = 0
      last = -1
      continue
    }
    equal = byte === last ? equal + 1 : 1
    last = byte
    out[size++] = byte
  }
  return out.subarray(0, size)
}

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 24
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x80000000) === 0 ? crc << 1 : (crc << 1) ^ 0x04c11db7
  return crc >>> 0
})

function checksum(bytes: Buffer): number {
  let crc = 0xffffffff
  for (const byte of bytes) crc = ((crc << 8) ^ (crcTable[((crc >>> 24) ^ byte) & 0xff] ?? 0)) >>> 0
  return ~crc >>> 0
}
