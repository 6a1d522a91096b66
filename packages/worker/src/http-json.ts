// One JSON request over node:http(s): bounded in time and size, following nothing.
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'

export type JsonRequest = Readonly<{
  method: string
  url: URL
  headers: Readonly<Record<string, string>>
  body: Uint8Array
  timeoutMs: number
  signal: AbortSignal
}>

/** `body` is undefined when it is not JSON. */
export type JsonResponse = Readonly<{ status: number; headers: IncomingMessage['headers']; body: unknown }>

const largestBody = 1_000_000

/** Throws when there is no whole answer: not reached, too slow, too large, cut off. */
export async function requestJson({ method, url, headers, body, timeoutMs, signal }: JsonRequest): Promise<JsonResponse> {
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const send = url.protocol === 'https:' ? httpsRequest : httpRequest
      const request = send(url, {
        method,
        // A connection of its own each time: polls are half a minute apart, and a kept one would mostly be found closed.
        agent: false,
        signal: AbortSignal.any([signal, timeout]),
        headers: { ...headers, 'content-type': 'application/json', 'content-length': body.byteLength, accept: 'application/json' },
      })
      request.once('response', resolve).once('error', reject)
      request.end(body)
    })
    return { status: response.statusCode ?? 0, headers: response.headers, body: parse(await readAll(response)) }
  } catch (error) {
    signal.throwIfAborted()
    if (timeout.aborted) throw new Error(`no answer within ${timeoutMs} ms`, { cause: error })
    throw error
  }
}

async function readAll(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response) {
    if (!Buffer.isBuffer(chunk)) continue
    length += chunk.length
    if (length > largestBody) throw new Error(`the answer is larger than ${largestBody} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
