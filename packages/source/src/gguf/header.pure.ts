// Reads the header of a GGUF file (version 2 and 3, little endian): metadata and tensor descriptions, without the tensors. The
// bytes are hostile: every count and length is checked against the bytes that exist before anything is stored, arrays are
// skipped rather than built, and the number of kept values is bounded.

/** Metadata value: short texts and short lists of numbers are kept, of all other lists only the length. */
export type GgufValue = number | boolean | string | readonly number[] | Readonly<{ length: number }>

export interface GgufTensor {
  readonly name: string
  readonly type: number
  readonly elements: number
}

export interface GgufHeader {
  readonly version: number
  readonly metadata: ReadonlyMap<string, GgufValue>
  readonly tensorCount: number
  /** The first byte of the tensors in the file. */
  readonly dataOffset: number
}

export type GgufReading =
  | Readonly<{ kind: 'header'; header: GgufHeader }>
  /** The header is longer than the given bytes: at least this many from the beginning of the file are needed. */
  | Readonly<{ kind: 'more'; bytes: number }>
  | Readonly<{ kind: 'invalid'; reason: string }>

/** Larger than the header of any known model, whose vocabularies take up to 15 MB. */
export const maxHeaderBytes = 64 * 2 ** 20

const maxKeys = 65_536
const maxKept = 2_048
const maxTensors = 262_144
const maxNameBytes = 4_096
const maxTextBytes = 1_024
const maxListLength = 1_024
const maxDepth = 4
const maxDimensions = 8

class Short extends Error {
  readonly bytes: number
  constructor(bytes: number) {
    super('short')
    this.bytes = bytes
  }
}
class Invalid extends Error {}

/** `onTensor` receives every tensor description, in the order of the file. */
export function readGgufHeader(bytes: Uint8Array, onTensor: (tensor: GgufTensor) => void): GgufReading {
  try {
    return { kind: 'header', header: readHeader(new Cursor(bytes), onTensor) }
  } catch (error) {
    if (error instanceof Short)
      return error.bytes > maxHeaderBytes
        ? { kind: 'invalid', reason: `its header is larger than ${maxHeaderBytes} bytes` }
        : { kind: 'more', bytes: error.bytes }
    if (error instanceof Invalid) return { kind: 'invalid', reason: error.message }
    throw error
  }
}

function readHeader(cursor: Cursor, onTensor: (tensor: GgufTensor) => void): GgufHeader {
  if (cursor.u32() !== 0x46_55_47_47) throw new Invalid('it does not begin with GGUF')
  const version = cursor.u32()
  if (version !== 2 && version !== 3)
    throw new Invalid(version >= 2 ** 16 ? 'it is a big-endian GGUF file' : `GGUF version ${version} is not supported; expected 2 or 3`)
  const [tensorCount, keyCount] = [cursor.u64(), cursor.u64()]
  if (tensorCount > maxTensors) throw new Invalid(`it announces ${tensorCount} tensors; at most ${maxTensors} are supported`)
  if (keyCount > maxKeys) throw new Invalid(`it announces ${keyCount} metadata keys; at most ${maxKeys} are supported`)
  const metadata = new Map<string, GgufValue>()
  for (let at = 0; at < keyCount; at += 1) {
    const key = cursor.text(maxNameBytes, 'a metadata key')
    const value = readValue(cursor, cursor.u32())
    if (value !== null && metadata.size < maxKept) metadata.set(key, value)
  }
  for (let at = 0; at < tensorCount; at += 1) onTensor(readTensor(cursor))
  return { version, metadata, tensorCount, dataOffset: aligned(cursor.offset, metadata.get('general.alignment')) }
}

function readTensor(cursor: Cursor): GgufTensor {
  const name = cursor.text(maxNameBytes, 'the name of a tensor')
  const dimensions = cursor.u32()
  if (dimensions > maxDimensions) throw new Invalid(`a tensor has ${dimensions} dimensions; at most ${maxDimensions} are supported`)
  let elements = 1
  for (let at = 0; at < dimensions; at += 1) elements *= cursor.u64()
  if (!Number.isSafeInteger(elements)) throw new Invalid('a tensor is larger than any file')
  const type = cursor.u32()
  cursor.u64()
  return { name, type, elements }
}

function aligned(offset: number, alignment: GgufValue | undefined): number {
  const to = typeof alignment === 'number' && alignment >= 1 && alignment <= 2 ** 20 ? alignment : 32
  return Math.ceil(offset / to) * to
}

type Scalar = Readonly<{ bytes: number; read: (cursor: Cursor) => number | boolean | null }>

const text = 8
const list = 9
const scalars: ReadonlyMap<number, Scalar> = new Map([
  [0, { bytes: 1, read: (cursor) => cursor.view(1).getUint8(0) }],
  [1, { bytes: 1, read: (cursor) => cursor.view(1).getInt8(0) }],
  [2, { bytes: 2, read: (cursor) => cursor.view(2).getUint16(0, true) }],
  [3, { bytes: 2, read: (cursor) => cursor.view(2).getInt16(0, true) }],
  [4, { bytes: 4, read: (cursor) => cursor.view(4).getUint32(0, true) }],
  [5, { bytes: 4, read: (cursor) => cursor.view(4).getInt32(0, true) }],
  [6, { bytes: 4, read: (cursor) => finite(cursor.view(4).getFloat32(0, true)) }],
  [7, { bytes: 1, read: (cursor) => cursor.view(1).getUint8(0) !== 0 }],
  [10, { bytes: 8, read: (cursor) => safe(cursor.view(8).getBigUint64(0, true)) }],
  [11, { bytes: 8, read: (cursor) => safe(cursor.view(8).getBigInt64(0, true)) }],
  [12, { bytes: 8, read: (cursor) => finite(cursor.view(8).getFloat64(0, true)) }],
])
const finite = (value: number): number | null => (Number.isFinite(value) ? value : null)
const safe = (value: bigint): number | null => (Number.isSafeInteger(Number(value)) ? Number(value) : null)

/** Null: skipped. */
function readValue(cursor: Cursor, type: number): GgufValue | null {
  if (type === text) return cursor.shortText()
  if (type === list) return readList(cursor, 1)
  return scalarOf(type).read(cursor)
}

function scalarOf(type: number): Scalar {
  const scalar = scalars.get(type)
  if (scalar === undefined) throw new Invalid(`a metadata value has the unknown type ${type}`)
  return scalar
}

function readList(cursor: Cursor, depth: number): GgufValue {
  const [type, length] = [cursor.u32(), cursor.u64()]
  if (type === text) for (let at = 0; at < length; at += 1) cursor.skip(cursor.u64())
  else if (type === list) {
    if (depth === maxDepth) throw new Invalid(`a metadata value has more than ${maxDepth} nested lists`)
    for (let at = 0; at < length; at += 1) readList(cursor, depth + 1)
  } else {
    const scalar = scalarOf(type)
    if (length > maxListLength || depth > 1) cursor.skip(length * scalar.bytes)
    else return readNumbers(cursor, scalar, length)
  }
  return { length }
}

function readNumbers(cursor: Cursor, { bytes, read }: Scalar, length: number): readonly number[] {
  cursor.require(length * bytes)
  return Array.from({ length }, () => Number(read(cursor) ?? 0))
}

/** Every read is checked against the given bytes. */
class Cursor {
  offset = 0
  readonly #bytes: Uint8Array
  readonly #view: DataView

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  require(length: number): void {
    if (!Number.isSafeInteger(this.offset + length)) throw new Invalid('a length in it is larger than any file')
    if (this.offset + length > this.#bytes.length) throw new Short(this.offset + length)
  }

  skip(length: number): void {
    this.require(length)
    this.offset += length
  }

  view(length: number): DataView {
    const at = this.offset
    this.skip(length)
    return new DataView(this.#view.buffer, this.#view.byteOffset + at, length)
  }

  u32(): number {
    const at = this.offset
    this.skip(4)
    return this.#view.getUint32(at, true)
  }

  u64(): number {
    const [low, high] = [this.u32(), this.u32()]
    if (high >= 2 ** 21) throw new Invalid('a length in it is larger than any file')
    return high * 2 ** 32 + low
  }

  text(maxBytes: number, what: string): string {
    const length = this.u64()
    if (length > maxBytes) throw new Invalid(`${what} has ${length} bytes; at most ${maxBytes} are supported`)
    const at = this.offset
    this.skip(length)
    return decode(this.#bytes.subarray(at, at + length))
  }

  /** Null for a text that is too long to keep, such as a template. */
  shortText(): string | null {
    const length = this.u64()
    const at = this.offset
    this.skip(length)
    return length > maxTextBytes ? null : decode(this.#bytes.subarray(at, at + length))
  }
}

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
