// The worker's one door, and its limits: on heads, on their number, on time. An answer may take as long as it takes.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createRoutes, type RouteDeps } from './routes.ts'

export type GatewayDeps = RouteDeps & Readonly<{ host: string; port: number }>

export interface Gateway {
  readonly host: string
  readonly port: number
  close(): Promise<void>
}

/** Each stream is a connection of a controller. Beyond this, new ones are closed; those that say nothing go after 10 s. */
const mostConnections = 16_384

/** Throws when it can't listen there. */
export async function openGateway(deps: GatewayDeps): Promise<Gateway> {
  const answer = createRoutes(deps)
  const server = createServer({
    maxHeaderSize: 16_384,
    headersTimeout: 10_000,
    // Of the whole request: an upload takes hours. Bodies are watched while they are read (watch-body).
    requestTimeout: 0,
    keepAliveTimeout: 10_000,
    connectionsCheckingInterval: 2_000,
  })
  server.maxHeadersCount = 100
  server.maxConnections = mostConnections
  const serve: RequestListener = (request, response) => {
    answer(request, response).catch((error: unknown) => {
      deps.log.error('the gateway failed', { error })
      response.destroy()
    })
  }
  server.on('request', serve)
  // The body is asked for by whoever wants to read it, once it is known who sends it.
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
