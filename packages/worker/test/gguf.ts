// The beginning of a GGUF file, with values of three kinds.
export function ggufHead(entries: readonly (readonly [string, number | string | readonly string[]])[]): Buffer {
  return Buffer.concat([
    Buffer.from('GGUF'),
    uint32(3),
    uint64(0),
    uint64(entries.length),
    ...entries.flatMap(([key, value]) => [text(key), valueOf(value)]),
  ])
}

function valueOf(value: number | string | readonly string[]): Buffer {
  if (typeof value === 'number') return Buffer.concat([uint32(4), uint32(value)])
  if (typeof value === 'string') return Buffer.concat([uint32(8), text(value)])
  return Buffer.concat([uint32(9), uint32(8), uint64(value.length), ...value.map(text)])
}

const text = (value: string): Buffer => Buffer.concat([uint64(Buffer.byteLength(value)), Buffer.from(value)])

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
