// What the gateway serves, and what each of it needs. Whatever is not here is not there.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { version, type Log } from '@muster/host'
import { gatewayPaths, gatewayScope } from '@muster/protocol'
import type { WorkerMetrics } from '../metrics.ts'
import { createAuthorise, type GatewayIdentity } from './authorise.ts'
import { isLoopbackAddress } from './listen-address.ts'
import { notFound, respond } from './respond.ts'
import { serveFiles, type FileDeps } from './serve-files.ts'
import { serveLogs, type LogDeps } from './serve-logs.ts'
import { replicaPrefix, serveReplica, type ReplicaDeps } from './serve-replica.ts'

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

export type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>

export function createRoutes(deps: RouteDeps): Answer {
  const behind = { ...deps, authorise: createAuthorise(deps.identity) }
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
        // As on controllers: open on loopback only.
        if (!isLoopbackAddress(request.socket.localAddress ?? '') && behind.authorise(request, response, gatewayScope.metrics) === null)
          return
        response.writeHead(200, { 'content-type': deps.metrics.contentType })
        response.end(await deps.metrics.render())
        return
      default:
        return notFound(response, path)
    }
  }
}
