// Hashes a file while it grows, always from its first byte: what a former run has left there counts only by its hash.
import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { JobContext } from './job.ts'

const hashBufferBytes = 1024 * 1024

export async function hashFile({ path }: { readonly path: string }, { waitForBytes, signal, sign }: JobContext): Promise<string> {
  await using file = await open(path, 'r')
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(hashBufferBytes)
  let at = 0
  for (;;) {
    const { bytes, end } = await waitForBytes(at)
    while (at < bytes) {
      signal.throwIfAborted()
      const { bytesRead } = await file.read(buffer, 0, Math.min(hashBufferBytes, bytes - at), at)
      if (bytesRead === 0) throw new Error(`${path} is shorter than what was written to it`)
      hash.update(buffer.subarray(0, bytesRead))
      at += bytesRead
      sign()
    }
    if (end) return hash.digest('hex')
  }
}
