// Zip archives for tests, whose fields can be set wrong.
import { crc32, deflateRawSync } from 'node:zlib'

export interface ZipFixture {
  readonly path: string
  readonly data?: string
  /** Unix mode with its kind. */
  readonly mode?: number
  readonly method?: number
  readonly flags?: number
  readonly size?: number
  readonly crc?: number
  /** The position of the local header, instead of the right one. */
  readonly at?: number
}

export function zip(entries: readonly ZipFixture[]): Buffer {
  const local: Buffer[] = []
  const directory: Buffer[] = []
  let at = 0
  for (const entry of entries) {
    const { path, data = '', mode = 0o100644, method = 8, flags = 0x800 } = entry
    const [name, content] = [Buffer.from(path), Buffer.from(data)]
    const packed = method === 8 ? deflateRawSync(content) : content
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(flags, 2)
    common.writeUInt16LE(method, 4)
    common.writeUInt32LE(entry.crc ?? crc32(content), 10)
    common.writeUInt32LE(packed.length, 14)
    common.writeUInt32LE(entry.size ?? content.length, 18)
    common.writeUInt16LE(name.length, 22)
    const header = Buffer.concat([Buffer.from('PK\x03\x04'), common, name, packed])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE(mode * 65_536, 6)
    rest.writeUInt32LE(entry.at ?? at, 10)
    directory.push(Buffer.concat([Buffer.from('PK\x01\x02'), Buffer.from([20, 3]), common, rest, name]))
    local.push(header)
    at += header.length
  }
  const entriesOf = Buffer.concat(directory)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(entries.length, 4)
  end.writeUInt16LE(entries.length, 6)
  end.writeUInt32LE(entriesOf.length, 8)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...local, entriesOf, Buffer.from('PK\x05\x06'), end])
}
