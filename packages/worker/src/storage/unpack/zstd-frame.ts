// Where a frame of zstd data ends (RFC 8878, section 3.1), from its headers alone. The decoder must get exactly one frame:
// given more, it takes what follows for another one, or loses it, depending on how the bytes come.
import type { FileHandle } from 'node:fs/promises'
import { refusal } from '../refusal.ts'

const zstdMagic = 0xfd2fb528
const rleBlock = 1
const reservedBlock = 3
const dictionaryBytes = [0, 1, 2, 4]
const contentSizeBytes = [0, 2, 4, 8]

export interface ZstdFrame {
  readonly kind: 'data' | 'skippable'
  /** May lie beyond the end of the file, when that was cut. */
  readonly end: number
}

export async function zstdFrameAt(file: FileHandle, at: number): Promise<ZstdFrame> {
  const start = await readAt(file, at, 8)
  const found = start.length < 8 ? 0 : start.readUInt32LE(0)
  if (found >>> 4 === 0x184d2a5) return { kind: 'skippable', end: at + 8 + start.readUInt32LE(4) }
  if (found !== zstdMagic) throw refusal('compression', at === 0 ? 'this is not zstd data' : 'something follows the end of the zstd data')
  const descriptor = start.readUInt8(4)
  const isSingleSegment = (descriptor & 0x20) !== 0
  const checksumBytes = (descriptor & 0x04) === 0 ? 0 : 4
  const contentSize = descriptor >>> 6 === 0 && isSingleSegment ? 1 : (contentSizeBytes[descriptor >>> 6] ?? 0)
  const header = 5 + (isSingleSegment ? 0 : 1) + (dictionaryBytes[descriptor & 3] ?? 0) + contentSize
  return { kind: 'data', end: (await endOfBlocks(file, at + header)) + checksumBytes }
}

async function endOfBlocks(file: FileHandle, start: number): Promise<number> {
  for (let at = start; ;) {
    const bytes = await readAt(file, at, 3)
    if (bytes.length < 3) throw refusal('compression', 'the zstd data ends within a frame')
    const block = bytes.readUIntLE(0, 3)
    const type = (block >>> 1) & 3
    if (type === reservedBlock) throw refusal('compression', 'a zstd block is of no known type')
    at += 3 + (type === rleBlock ? 1 : block >>> 3)
    if ((block & 1) === 1) return at
  }
}

async function readAt(file: FileHandle, at: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, at)
  return buffer.subarray(0, bytesRead)
}
