// The records of a PAX extended header: "length key=value\n". Only path, linkpath and size change an entry; owners, times,
// extended attributes (among them capabilities) and comments are left out; sparse files are refused.
import { quote, refusal } from '../refusal.ts'
import { decodeName } from './tar-header.ts'

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

/** A global header speaks for all entries after it: a name, a link or a size there can only be a trick. */
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
