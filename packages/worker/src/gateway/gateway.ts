// The worker's one door: health for whoever watches it, and nothing else that is not asked for by name.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { equalHashes, sha256Hex, version } from '@muster/host'
import type { WorkerMetrics } from '../metrics.ts'
import { isLoopbackAddress } from './listen-address.ts'

export type GatewayDeps = Readonly<{
  host: string
  port: number
  isReady: () => boolean
  /** What controllers show to be let in; null before the node is approved. */
  secret: () => string | null
  metrics: WorkerMetrics
}>

export interface Gateway {
  readonly host: string
  readonly port: number
  close(): Promise<void>
}

/** Throws when it can't listen there. */
export async function openGateway(deps: GatewayDeps): Promise<Gateway> {
  const server = createServer(
    { maxHeaderSize: 16_384, headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 10_000 },
    (request, response) => {
      answer(deps, request, response).catch(() => response.destroy())
    },
  )
  server.maxHeadersCount = 100
  server.listen(deps.port, deps.host)
  await once(server, 'listening')
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('a TCP server has an address with a port')
  return {
    host: bound.address,
    port: bound.port,
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

async function answer(deps: GatewayDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url?.split('?')[0] ?? ''
  // Nothing here reads a body; one that comes is let pass by, within the limits of time.
  request.resume()
  if (request.method !== 'GET' && request.method !== 'HEAD') return notFound(response, path)
  switch (path) {
    case '/healthz':
      return json(response, 200, { status: 'ok' })
    case '/readyz':
      return deps.isReady() ? json(response, 200, { status: 'ok' }) : json(response, 503, { status: 'unavailable' })
    case '/version':
      return json(response, 200, { version })
    case '/metrics':
      if (!mayReadMetrics(deps, request)) {
        return json(response, 401, {
          error: { code: 'unauthorized', message: 'metrics are open on a loopback address; elsewhere they need the gateway secret' },
        })
      }
      response.writeHead(200, { 'content-type': deps.metrics.contentType })
      response.end(await deps.metrics.render())
      return
    default:
      return notFound(response, path)
  }
}

/** As on controllers: open on loopback only. */
function mayReadMetrics({ secret }: GatewayDeps, { socket, headers }: IncomingMessage): boolean {
  if (isLoopbackAddress(socket.localAddress ?? '')) return true
  const wanted = secret()
  const given = /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1]
  return wanted !== null && given !== undefined && equalHashes(sha256Hex(given), sha256Hex(wanted))
}

const notFound = (response: ServerResponse, path: string): void =>
  json(response, 404, { error: { code: 'not_found', message: `nothing is served at ${path.slice(0, 200)}` } })

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}
