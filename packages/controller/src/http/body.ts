// Reading a request's body: bounded, and refused before it is read where its length is known.
import { HttpError } from './http-error.ts'
import { isTooDeep, tooDeepMessage } from './json-depth.ts'

const maxBodyBytes = 8 * 2 ** 20

export async function readRaw(request: Request, maxBytes = maxBodyBytes): Promise<Uint8Array> {
  const announced = Number(request.headers.get('content-length') ?? 0)
  if (announced > maxBytes) throw tooLarge(maxBytes)
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

/** An empty body is an empty object: `curl -X POST` without one is fine where nothing is required. */
export async function readJson(source: Request | Uint8Array): Promise<unknown> {
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
