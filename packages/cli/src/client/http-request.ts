// One HTTP request on a connection of its own (a command makes few, and must not be kept alive by an
// idle socket). Knows nothing of routes; follows no redirect, so that a key never travels elsewhere.
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'

export interface HttpRequest {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

/** Resolves with the head of the answer; its body is still to be read. Rejects with the socket's error. */
export function openRequest(request: HttpRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const open = request.url.protocol === 'https:' ? requestHttps : requestHttp
    const headers = {
      ...request.headers,
      ...(request.body === undefined ? {} : { 'content-length': String(Buffer.byteLength(request.body)) }),
    }
    const outgoing = open(request.url, { method: request.method, headers, signal: request.signal, agent: false })
    outgoing.on('response', resolve)
    outgoing.on('error', reject)
    outgoing.end(request.body)
  })
}

export async function readText(response: IncomingMessage): Promise<string> {
  response.setEncoding('utf8')
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return text
}
