// One HTTP request on a connection of its own (a command makes few, and must not be kept alive by an
// idle socket). Knows nothing of routes; follows no redirect, so that a key never travels elsewhere.
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Readable } from 'node:stream'

/** A stream is sent as it is read, and ended with the request. */
export type RequestBody = string | { readonly stream: Readable; readonly sizeBytes: number }

export interface HttpRequest {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: RequestBody
  readonly signal: AbortSignal
}

/** Resolves with the head of the answer; its body is still to be read. Rejects with the socket's error. */
export function openRequest(request: HttpRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const open = request.url.protocol === 'https:' ? requestHttps : requestHttp
    const { body } = request
    const headers = { ...request.headers, ...(body === undefined ? {} : { 'content-length': String(sizeOf(body)) }) }
    const outgoing = open(request.url, { method: request.method, headers, signal: request.signal, agent: false })
    outgoing.on('response', resolve)
    outgoing.on('error', reject)
    if (body === undefined || typeof body === 'string') return void outgoing.end(body)
    body.stream.on('error', (error) => outgoing.destroy(error))
    outgoing.on('close', () => body.stream.destroy())
    body.stream.pipe(outgoing)
  })
}

const sizeOf = (body: RequestBody): number => (typeof body === 'string' ? Buffer.byteLength(body) : body.sizeBytes)

export async function readText(response: IncomingMessage): Promise<string> {
  response.setEncoding('utf8')
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return text
}
