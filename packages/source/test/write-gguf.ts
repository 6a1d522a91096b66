// Writes headers of GGUF files for tests.

export type GgufEntry = Readonly<{ key: string; type: number; bytes: Uint8Array }>
export interface GgufContent {
  readonly version?: number
  readonly keys: readonly GgufEntry[]
  readonly tensors?: readonly Readonly<{ name: string; dims: readonly number[]; type: number }>[]
}

export function writeGguf({ version = 3, keys, tensors = [] }: GgufContent): Uint8Array {
  return Buffer.concat([
    ...[Buffer.from('GGUF'), u32(version), u64(tensors.length), u64(keys.length)],
    ...keys.flatMap(({ key, type, bytes }) => [text(key), u32(type), bytes]),
    ...tensors.flatMap(({ name, dims, type }) => [text(name), u32(dims.length), ...dims.map(u64), u32(type), u64(0)]),
  ])
}

function u32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function u64(value: number): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

const text = (value: string): Uint8Array => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])
