// Headers of a tar archive, read strictly: POSIX ustar and GNU, sizes in octal, a correct checksum. Anything that a
// lenient reader would have to guess is refused, because another reader would guess differently.
import { quote, refusal } from './refusal.ts'

export const blockBytes = 512

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
export const largestOctalSize = 0o77777777777

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Null for a block of zeros, which ends an archive. */
export function parseTarHeader(block: Uint8Array): TarHeader | null {
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
export function decodeName(bytes: Uint8Array): string {
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

export interface PaxRecords {
  readonly path?: string
  readonly linkPath?: string
  readonly size?: number
}

export function parsePaxRecords(bytes: Buffer): PaxRecords {
  let records: PaxRecords = {}
  for (let at = 0; at < bytes.length;) {
    const { key, value, next } = recordAt(bytes, at)
    records = { ...records, ...interpretRecord(key, value) }
    at = next
  }
  return records
}

/** A global header applies to all entries after it: a name, a link or a size there can only be a trick. */
export function checkGlobalPaxRecords(bytes: Buffer): void {
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
