// Reads the context that a model was trained with from the beginning of its GGUF file. Every length is compared with the bytes at hand.
const [littleEndianMagic, mostEntries, mostElements] = [0x46_55_47_47, 65_536, 4_000_000]

/** Bytes of each type of value; strings (8) and lists (9) have a length of their own. */
const sizes: Readonly<Record<number, number>> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 }
const [typeUint32, typeString, typeList, typeUint64] = [4, 8, 9, 10]

/** Null: not a GGUF file, or the number is not in these bytes. */
export function trainedContextOf(bytes: Buffer): number | null {
  try {
    return findContext(new Reader(bytes))
  } catch (error) {
    // A read behind the end: the file is cut or broken.
    if (error instanceof RangeError) return null
    throw error
  }
}

function findContext(reader: Reader): number | null {
  if (reader.uint32() !== littleEndianMagic) return null
  const version = reader.uint32()
  if (version < 2 || version > 3) return null
  reader.skip(8)
  const entries = Math.min(reader.uint64(), mostEntries)
  for (let entry = 0; entry < entries; entry += 1) {
    const key = reader.string()
    const type = reader.uint32()
    if (/^[\w-]+\.context_length$/.test(key) && (type === typeUint32 || type === typeUint64)) {
      const length = type === typeUint32 ? reader.uint32() : reader.uint64()
      return length >= 1 && length <= 16_777_216 ? length : null
    }
    skipValue(reader, type)
  }
  return null
}

function skipValue(reader: Reader, type: number): void {
  if (type === typeString) return reader.skip(reader.uint64())
  if (type !== typeList) return reader.skip(sizeOf(type))
  const element = reader.uint32()
  const count = reader.uint64()
  if (element !== typeString) return reader.skip(count * sizeOf(element))
  if (count > mostElements) throw new RangeError('a list is too long')
  for (let at = 0; at < count; at += 1) reader.skip(reader.uint64())
}

function sizeOf(type: number): number {
  const size = sizes[type]
  if (size === undefined) throw new RangeError('a value of an unknown type')
  return size
}

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  uint32(): number {
    const value = this.#bytes.readUInt32LE(this.#at)
    this.#at += 4
    return value
  }

  uint64(): number {
    const value = Number(this.#bytes.readBigUInt64LE(this.#at))
    this.#at += 8
    return value
  }

  string(): string {
    const length = this.uint64()
    const from = this.#at
    this.skip(length)
    return this.#bytes.toString('utf8', from, this.#at)
  }

  skip(length: number): void {
    if (!(length >= 0 && length <= this.#bytes.length - this.#at)) throw new RangeError('a value behind the end')
    this.#at += length
  }
}
