// Reads a tar archive chunk by chunk and passes on its entries, with the long names of PAX and GNU resolved. It knows the
// format only; merged-tree.ts decides which entries are allowed. See docs/adr/0006.
import { quote, refusal } from './refusal.ts'

/** Names have at most 1024 bytes, and attributes rarely exceed a page; a larger header is a bomb. */
const largestExtensionBytes = 128 * 1024
const largestLongNameBytes = 4096

export interface TarSink {
  /** Called for every header, including extended headers. */
  header(): void
  entry(entry: TarHeader): void
  data(chunk: Buffer): void
  end(): void
}

interface Body {
  /** The collected bytes of an extended header; null for an entry, whose data is passed on. */
  readonly gathered: Buffer[] | null
  readonly finish: (bytes: Buffer) => void
  left: number
  padding: number
}

export class TarReader {
  readonly #sink: TarSink
  #partial = Buffer.alloc(0)
  #body: Body | null = null
  #pax: PaxRecords | null = null
  #longPath: string | null = null
  #longLink: string | null = null
  #hasEnded = false

  constructor(sink: TarSink) {
    this.#sink = sink
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#body !== null) at += this.#onBody(this.#body, chunk.subarray(at))
      else if (this.#partial.length === 0 && chunk.length - at >= blockBytes) {
        this.#onBlock(chunk.subarray(at, at + blockBytes))
        at += blockBytes
      } else at += this.#onPartial(chunk.subarray(at, at + blockBytes - this.#partial.length))
    }
  }

  /** Throws unless the archive is complete. */
  finish(): void {
    if (this.#body !== null || this.#partial.length > 0 || !this.#hasEnded) throw refusal('archive_truncated', 'the archive ends too early')
  }

  #onPartial(piece: Buffer): number {
    const block = Buffer.concat([this.#partial, piece])
    this.#partial = block.length < blockBytes ? block : Buffer.alloc(0)
    if (block.length === blockBytes) this.#onBlock(block)
    return piece.length
  }

  #onBlock(block: Buffer): void {
    const header = parseTarHeader(block)
    if (header !== null && this.#hasEnded) throw refusal('archive_trailing_data', 'there is data after the end of the archive')
    if (header !== null) return this.#onHeader(header)
    if (this.#pax !== null || this.#longPath !== null || this.#longLink !== null)
      throw refusal('archive_pax', 'an extended header without its entry')
    this.#hasEnded = true
  }

  #onHeader(header: TarHeader): void {
    this.#sink.header()
    switch (header.type) {
      case 'g':
        return this.#beginExtension(header, checkGlobalPaxRecords)
      case 'x':
        if (this.#pax !== null) throw refusal('archive_pax', 'two extended headers for one entry')
        return this.#beginExtension(header, (bytes) => void (this.#pax = parsePaxRecords(bytes)))
      case 'L':
        if (this.#longPath !== null) throw refusal('archive_pax', 'two long names for one entry')
        return this.#beginExtension(header, (bytes) => void (this.#longPath = longName(bytes)))
      case 'K':
        if (this.#longLink !== null) throw refusal('archive_pax', 'two long links for one entry')
        return this.#beginExtension(header, (bytes) => void (this.#longLink = longName(bytes)))
      default: {
        const entry = mergeExtensions(header, { pax: this.#pax ?? {}, longPath: this.#longPath, longLink: this.#longLink })
        this.#pax = this.#longPath = this.#longLink = null
        this.#sink.entry(entry)
        this.#begin(entry.size, { gathered: null, finish: () => this.#sink.end() })
      }
    }
  }

  #beginExtension(header: TarHeader, finish: (bytes: Buffer) => void): void {
    const largest = header.type === 'x' || header.type === 'g' ? largestExtensionBytes : largestLongNameBytes
    if (header.size > largest) throw refusal('archive_pax', `an extended header of ${header.size} bytes is too large`)
    this.#begin(header.size, { gathered: [], finish })
  }

  #begin(size: number, rest: Pick<Body, 'gathered' | 'finish'>): void {
    this.#body = { ...rest, left: size, padding: (blockBytes - (size % blockBytes)) % blockBytes }
    if (size === 0) this.#endBody(this.#body)
  }

  #endBody(body: Body): void {
    this.#body = body.padding > 0 ? body : null
    body.finish(Buffer.concat(body.gathered ?? []))
  }

  /** Returns the number of bytes consumed. */
  #onBody(body: Body, chunk: Buffer): number {
    if (body.left === 0) {
      const skipped = Math.min(body.padding, chunk.length)
      body.padding -= skipped
      if (body.padding === 0) this.#body = null
      return skipped
    }
    const piece = chunk.subarray(0, body.left)
    body.left -= piece.length
    if (body.gathered === null) this.#sink.data(piece)
    else body.gathered.push(Buffer.from(piece))
    if (body.left === 0) this.#endBody(body)
    return piece.length
  }
}

function longName(bytes: Buffer): string {
  const end = bytes.indexOf(0)
  return decodeName(end === -1 ? bytes : bytes.subarray(0, end))
}

interface Extensions {
  readonly pax: PaxRecords
  readonly longPath: string | null
  readonly longLink: string | null
}

function mergeExtensions(header: TarHeader, { pax, longPath, longLink }: Extensions): TarHeader {
  if ((pax.path !== undefined && longPath !== null) || (pax.linkPath !== undefined && longLink !== null))
    throw refusal('archive_pax', 'an entry has two long names')
  return {
    ...header,
    path: pax.path ?? longPath ?? header.path,
    linkPath: pax.linkPath ?? longLink ?? header.linkPath,
    size: entrySize(header, pax.size),
  }
}

/** A record may only hold a size that the header cannot: when they contradict, readers disagree on the entries that follow. */
function entrySize(header: TarHeader, size: number | undefined): number {
  if (size === undefined || size === header.size) return header.size
  const isTooLargeForOctal = size > largestOctalSize && (header.size === 0 || header.size === largestOctalSize)
  if (!isTooLargeForOctal) throw refusal('archive_size', `${quote(header.path)} has two sizes, ${header.size} and ${size}`)
  return size
}

// Headers are read strictly: POSIX ustar and GNU, sizes in octal, a correct checksum. Anything that a lenient reader would
// have to guess is refused, because another reader would guess differently.

const blockBytes = 512

export interface TarHeader {
  /** The type flag as a character; `0` also for the old NUL. */
  readonly type: string
  readonly path: string
  readonly linkPath: string
  readonly size: number
  readonly mode: number
  /** Seconds since the epoch; 0 when absent or malformed. */
  readonly mtime: number
}

/** The largest size in eleven octal digits; larger ones need a PAX record. */
const largestOctalSize = 0o77777777777

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Null for a block of zeros, which ends an archive. */
function parseTarHeader(block: Uint8Array): TarHeader | null {
  if (block.every((byte) => byte === 0)) return null
  const bytes = Buffer.from(block.buffer, block.byteOffset, blockBytes)
  if (octal(bytes, 148, 8) !== checksum(bytes)) throw refusal('archive_header', 'a header has a wrong checksum')
  const magic = bytes.toString('latin1', 257, 265)
  const isPosix = magic === 'ustar\x0000'
  if (!isPosix && magic !== 'ustar  \0') throw refusal('archive_header', `${quote(magic)} is neither a POSIX nor a GNU archive`)
  const name = text(bytes, 0, 100)
  const prefix = isPosix ? text(bytes, 345, 155) : ''
  const flag = bytes.toString('latin1', 156, 157)
  return {
    type: flag === '\0' ? '0' : flag,
    path: prefix === '' ? name : `${prefix}/${name}`,
    linkPath: text(bytes, 157, 100),
    size: parseSize(bytes),
    mode: octal(bytes, 100, 8) ?? 0,
    mtime: octal(bytes, 136, 12) ?? 0,
  }
}

/** Strict UTF-8, so that a name is stored byte for byte or not at all. */
function decodeName(bytes: Uint8Array): string {
  let name: string
  try {
    name = decoder.decode(bytes)
  } catch {
    throw refusal('path_encoding', `the name ${quote(Buffer.from(bytes).toString('latin1'))} is not UTF-8`)
  }
  if (name.includes('\0')) throw refusal('path_encoding', `the name ${quote(name)} contains a NUL`)
  return name
}

function text(bytes: Buffer, at: number, length: number): string {
  const field = bytes.subarray(at, at + length)
  const end = field.indexOf(0)
  return decodeName(end === -1 ? field : field.subarray(0, end))
}

function parseSize(bytes: Buffer): number {
  if ((bytes.readUInt8(124) & 0x80) !== 0) throw refusal('archive_size', 'a size is written in base 256')
  const size = octal(bytes, 124, 12)
  if (size === null) throw refusal('archive_size', `${quote(bytes.toString('latin1', 124, 136))} is not a size`)
  return size
}

/** Null unless the field is octal digits between blanks. */
function octal(bytes: Buffer, at: number, length: number): number | null {
  const match = /^ *([0-7]*)[ \0]*$/.exec(bytes.toString('latin1', at, at + length))
  return match === null ? null : Number.parseInt(match[1] || '0', 8)
}

function checksum(bytes: Buffer): number {
  let sum = 8 * 0x20
  for (let i = 0; i < blockBytes; i++) if (i < 148 || i >= 156) sum += bytes.readUInt8(i)
  return sum
}

// Records of a PAX extended header: "length key=value\n". Only path, linkpath and size change an entry; owners, times,
// extended attributes (among them capabilities) and comments are ignored; sparse files are refused.

interface PaxRecords {
  readonly path?: string
  readonly linkPath?: string
  readonly size?: number
}

function parsePaxRecords(bytes: Buffer): PaxRecords {
  let records: PaxRecords = {}
  for (let at = 0; at < bytes.length;) {
    const { key, value, next } = recordAt(bytes, at)
    records = { ...records, ...interpretRecord(key, value) }
    at = next
  }
  return records
}

/** A global header applies to all entries after it: a name, a link or a size there can only be a trick. */
function checkGlobalPaxRecords(bytes: Buffer): void {
  const overridden = Object.keys(parsePaxRecords(bytes))
  if (overridden.length > 0) throw refusal('archive_pax', `a global header sets ${overridden.join(', ')} for every entry`)
}

function recordAt(bytes: Buffer, at: number): { key: string; value: Buffer; next: number } {
  const match = /^([1-9][0-9]{0,6}) /.exec(bytes.toString('latin1', at, at + 8))
  const next = at + Number(match?.[1] ?? 0)
  const start = at + (match?.[0].length ?? 0)
  const equals = bytes.indexOf(0x3d, start)
  if (match === null || next > bytes.length || equals <= start || equals >= next - 1 || bytes[next - 1] !== 0x0a)
    throw refusal('archive_pax', 'a record of an extended header is malformed')
  return { key: bytes.toString('latin1', start, equals), value: bytes.subarray(equals + 1, next - 1), next }
}

function interpretRecord(key: string, value: Buffer): PaxRecords {
  if (key === 'path') return { path: decodeName(value) }
  if (key === 'linkpath') return { linkPath: decodeName(value) }
  if (key === 'size') return { size: parsePaxSize(value.toString('latin1')) }
  if (key.startsWith('GNU.sparse.')) throw refusal('archive_sparse', 'an entry is a sparse file')
  return {}
}

function parsePaxSize(digits: string): number {
  if (!/^(0|[1-9][0-9]{0,14})$/.test(digits)) throw refusal('archive_size', `${quote(digits)} is not a size`)
  return Number(digits)
}
