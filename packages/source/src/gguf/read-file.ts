// Reads the header of a GGUF file on this machine: the beginning first, and more only if the header is longer.
import { open } from 'node:fs/promises'
import { errorCode } from '@muster/host'
import type { GgufFacts } from '@muster/protocol'
import { readGgufFacts } from './facts.pure.ts'
import { maxHeaderBytes } from './header.pure.ts'

const firstBytes = 2 ** 20

/** `missing`: there is no such file. `other`: not a GGUF file, or its header is not valid. */
export type GgufFile = Readonly<{ kind: 'facts'; facts: GgufFacts }> | Readonly<{ kind: 'missing' | 'other' }>

/** Throws when the file exists and cannot be read. */
export async function readGgufFile(path: string): Promise<GgufFile> {
  const file = await open(path, 'r').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  })
  if (file === null) return { kind: 'missing' }
  await using opened = file
  const most = Math.min((await opened.stat()).size, maxHeaderBytes)
  let length = Math.min(firstBytes, most)
  for (;;) {
    const buffer = Buffer.allocUnsafe(length)
    const { bytesRead } = await opened.read(buffer, 0, length, 0)
    const reading = readGgufFacts(buffer.subarray(0, bytesRead))
    if (reading.kind === 'facts') return reading
    if (reading.kind === 'invalid' || bytesRead < length || length === most) return { kind: 'other' }
    length = Math.min(most, Math.max(4 * length, reading.bytes))
  }
}
