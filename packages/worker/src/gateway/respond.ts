// Responses of the gateway itself, and the time limit on request bodies.
import type { IncomingMessage, ServerResponse } from 'node:http'

/** An unread body is dropped: the connection closes after the response. */
export function respond(response: ServerResponse, status: number, body: object, headers: Readonly<Record<string, string>> = {}): void {
  const text = JSON.stringify(body)
  const leaves = hasUnreadBody(response.req) ? { connection: 'close' } : {}
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...leaves, ...headers })
  response.end(text)
}

export function refuse(response: ServerResponse, status: number, code: string, message: string): void {
  respond(response, status, { error: { code, message } })
}

export const notFound = (response: ServerResponse, path: string): void =>
  refuse(response, 404, 'not_found', `nothing is served at ${path.slice(0, 200)}`)

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

const hasUnreadBody = (request: IncomingMessage): boolean => hasBody(request) && !request.readableEnded

const idleMs = 30_000

/** Ends a request whose body stalls. Only the sender is timed: not while received bytes are unread, and not after the body. */
export function watchBody(response: ServerResponse, limitMs = idleMs): void {
  const request = response.req
  if (request.complete) return
  const { socket } = request
  socket.setTimeout(limitMs)
  request.on('timeout', () => {
    if (!request.complete && request.readableLength === 0) request.destroy()
  })
  // Without a listener, node closes the connection, also after a complete request.
  response.on('timeout', () => undefined)
  const over = (): void => {
    socket.setTimeout(0)
  }
  request.once('end', over)
  request.once('close', over)
}
