// A whole body in memory, never more of it than was asked for.
import type { Readable } from 'node:stream'
import { FleetError } from '@muster/protocol'

export async function readAll(body: Readable, { maxBytes, what }: { maxBytes: number; what: string }): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body) {
    if (!Buffer.isBuffer(chunk)) throw new Error('a body of bytes gave something else')
    length += chunk.length
    // Leaving the loop destroys the body.
    if (length > maxBytes) throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} is larger than ${maxBytes} bytes` })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}
