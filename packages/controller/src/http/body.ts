// Reads a request's body with a limit on its size and on the depth of its JSON, or drops it.
import type { IncomingMessage } from 'node:http'
import { HttpError } from './http-error.ts'

const maxBodyBytes = 8 * 2 ** 20

export async function readRaw(request: Request, maxBytes = maxBodyBytes): Promise<Uint8Array> {
  checkDeclaredSize(request, maxBytes)
  if (request.body === null) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request.body) {
    size += chunk.byteLength
    if (size > maxBytes) throw tooLarge(maxBytes)
    chunks.push(chunk)
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)
}

/** Before anything looks at the body: from then on it is a stream that cannot be discarded. */
function checkDeclaredSize({ headers }: Request, maxBytes: number): void {
  if (Number(headers.get('content-length') ?? 0) > maxBytes) throw tooLarge(maxBytes)
}

/** More than any body that is sent by mistake; the limits of time end one that does not end. */
const discardLimits = { bytes: 64 * 2 ** 20, idleMs: 2_000, totalMs: 50_000 }

/**
 * Reads and drops the rest of a body before an answer that closes the connection. A connection that is closed while the client
 * still sends breaks, and the client may never read the answer.
 */
export async function discardBody(request: IncomingMessage, limits = discardLimits): Promise<void> {
  if (request.complete || request.destroyed) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const timers = [setTimeout(resolve, limits.idleMs), setTimeout(resolve, limits.totalMs)]
  let bytes = 0
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length
    if (bytes > limits.bytes) resolve()
    timers[0]?.refresh()
  }
  request.on('data', onData).once('end', resolve).once('close', resolve).resume()
  await promise
  for (const timer of timers) clearTimeout(timer)
  request.off('data', onData).off('end', resolve).off('close', resolve)
}

/** The body of a request whose method usually has none. */
export async function readIncoming(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    if (size > maxBytes) throw tooLarge(maxBytes)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** An empty body is an empty object, so that `curl -X POST` works where no field is required. */
export async function readJson(source: Request | Uint8Array): Promise<unknown> {
  if (source instanceof Request) checkDeclaredSize(source, maxBodyBytes)
  if (source instanceof Request && source.body !== null) {
    const type = source.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase() ?? ''
    if (type !== 'application/json' && source.headers.get('content-length') !== '0') {
      throw new HttpError(415, 'unsupported_media_type', `send JSON with "Content-Type: application/json", not ${JSON.stringify(type)}`)
    }
  }
  const raw = source instanceof Request ? await readRaw(source) : source
  if (raw.byteLength === 0) return {}
  if (isTooDeep(raw)) throw new HttpError(400, 'invalid', tooDeepMessage)
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(raw)) as unknown
  } catch (error) {
    throw new HttpError(400, 'invalid', `the body is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

const tooLarge = (maxBytes: number): HttpError =>
  new HttpError(413, 'too_large', `the body is larger than ${maxBytes} bytes`, { headers: { connection: 'close' } })

/** Deeper than any schema, tool call or configuration. The parser's time and memory grow with every level, so the depth is checked first. */
const maxDepth = 500

const [quote, backslash, openObject, closeObject, openList, closeList] = [0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d]

/** Linear, about a nanosecond per byte. */
export function isTooDeep(text: Uint8Array, limit = maxDepth): boolean {
  let depth = 0
  let isInString = false
  for (let at = 0; at < text.length; at += 1) {
    const byte = text[at]
    if (isInString) {
      if (byte === backslash) at += 1
      else if (byte === quote) isInString = false
    } else if (byte === quote) isInString = true
    else if (byte === openObject || byte === openList) {
      depth += 1
      if (depth > limit) return true
    } else if (byte === closeObject || byte === closeList) depth -= 1
  }
  return false
}

export const tooDeepMessage = `the body nests more than ${maxDepth} levels deep`
