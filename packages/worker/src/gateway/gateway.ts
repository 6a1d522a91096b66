// The HTTP server of a worker: its limits on headers, connections and time, and its routes. Responses have no time limit.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { type Log, version } from '@muster/host'
import { gatewayPaths, gatewayScope } from '@muster/protocol'
import type { WorkerMetrics } from '../metrics.ts'
import { createAuthorize, type GatewayIdentity } from './authorize.ts'
import { isLoopbackAddress } from './listen-address.ts'
import { notFound, respond } from './respond.ts'
import { type FileDeps, serveFiles } from './serve-files.ts'
import { type LogDeps, type ReplicaDeps, replicaPrefix, serveLogs, serveReplica } from './serve-replica.ts'

export type GatewayDeps = RouteDeps & Readonly<{ host: string; port: number }>

export interface Gateway {
  readonly host: string
  readonly port: number
  close(): Promise<void>
}

/** Each stream is a connection of a controller. Beyond this, new ones are closed; silent ones are closed after 10 s. */
const maxConnections = 16_384

/** Throws when it cannot listen there. */
export async function openGateway(deps: GatewayDeps): Promise<Gateway> {
  const answer = createRoutes(deps)
  const server = createServer({
    maxHeaderSize: 16_384,
    headersTimeout: 10_000,
    // For the whole request: an upload takes hours. watchBody ends a body that stalls.
    requestTimeout: 0,
    keepAliveTimeout: 10_000,
    connectionsCheckingInterval: 2_000,
  })
  server.maxHeadersCount = 100
  server.maxConnections = maxConnections
  const serve: RequestListener = (request, response) => {
    answer(request, response).catch((error: unknown) => {
      deps.log.error('gateway request failed', { error })
      response.destroy()
    })
  }
  server.on('request', serve)
  // Handlers request the body once the caller is authorized.
  server.on('checkContinue', serve)
  server.listen({ port: deps.port, host: deps.host, backlog: 4096 })
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

export type RouteDeps = Readonly<{
  isReady: () => boolean
  /** Null before the node is approved, and after it was removed. */
  identity: () => GatewayIdentity | null
  metrics: WorkerMetrics
  replicas: ReplicaDeps['replicas']
  files: FileDeps['files']
  openLog: LogDeps['openLog']
  log: Log
}>

type RequestHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>

function createRoutes(deps: RouteDeps): RequestHandler {
  const behind = { ...deps, authorize: createAuthorize(deps.identity) }
  return async (request, response) => {
    const path = request.url?.split('?', 1)[0] ?? ''
    if (path.startsWith(replicaPrefix)) return await serveReplica(behind, request, response)
    if (path === gatewayPaths.upload || path.startsWith(`${gatewayPaths.upload}/`)) return await serveFiles(behind, request, response)
    if (path === gatewayPaths.logs) return await serveLogs(behind, request, response)
    if (request.method !== 'GET' && request.method !== 'HEAD') return notFound(response, path)
    switch (path) {
      case '/healthz':
        return respond(response, 200, { status: 'ok' })
      case '/readyz':
        return deps.isReady() ? respond(response, 200, { status: 'ok' }) : respond(response, 503, { status: 'unavailable' })
      case '/version':
        return respond(response, 200, { version })
      case '/metrics':
        // As on controllers: without a token on loopback only.
        if (!isLoopbackAddress(request.socket.localAddress ?? '') && behind.authorize(request, response, gatewayScope.metrics) === null)
          return
        response.writeHead(200, { 'content-type': deps.metrics.contentType })
        response.end(await deps.metrics.render())
        return
      default:
        return notFound(response, path)
    }
  }
}
