// Answers that the gateway gives itself.
import type { IncomingMessage, ServerResponse } from 'node:http'

/** A body that was not asked for is not read: the connection ends with the answer. */
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
