// Reads a tar archive chunk by chunk and passes on its entries, with the long names of PAX and GNU resolved. It knows the
// format only; merged-tree.ts decides which entries are allowed. See docs/adr/0006.
import { quote, refusal } from './refusal.ts'
import {
  blockBytes,
  checkGlobalPaxRecords,
  decodeName,
  largestOctalSize,
  parsePaxRecords,
  parseTarHeader,
  type PaxRecords,
  type TarHeader,
} from './tar-header.ts'

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
