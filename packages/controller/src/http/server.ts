// The HTTP server: limits on everything a caller can make it wait for, and an orderly end.
import { getRequestListener } from '@hono/node-server'
import type { Log } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { Hono } from 'hono'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface HttpServer {
  readonly port: number
  stop(): Promise<void>
}

/** Ten seconds for the headers, a minute for the whole request; long polls and event streams are answers, not requests. */
const limits = { headersTimeout: 10_000, requestTimeout: 60_000, keepAliveTimeout: 75_000, maxHeaderSize: 16 * 1024 }
const graceMs = 4_000

export async function startServer(options: {
  fetch: Hono<never>['fetch'] | ((request: Request, env: never) => unknown)
  host: string
  port: number
  log: Log
}): Promise<HttpServer> {
  const listener = getRequestListener(options.fetch as Parameters<typeof getRequestListener>[0], { overrideGlobalObjects: false })
  const server = createServer({ ...limits, connectionsCheckingInterval: 2_000 }, (request, response) => void listener(request, response))
  await listen(server, options)
  server.on('error', (error) => options.log.error('the HTTP server failed', { error }))
  const { port } = server.address() as AddressInfo
  return { port, stop: () => close(server) }
}

async function listen(server: Server, { host, port }: { host: string; port: number }): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', (error: NodeJS.ErrnoException) => {
    const why: Record<string, string> = {
      EADDRINUSE: `port ${port} on ${host} is in use; stop what uses it, or choose another with --port`,
      EACCES: `no permission to listen on port ${port}; choose one above 1023 with --port`,
      EADDRNOTAVAIL: `${host} is no address of this machine; choose one with --host`,
    }
    reject(
      new FleetError(
        { code: 'unavailable', retry: 'never', message: why[error.code ?? ''] ?? `can't listen on ${host}:${port}: ${error.message}` },
        { cause: error },
      ),
    )
  })
  server.listen({ host, port }, resolve)
  await promise
  server.removeAllListeners('error')
}

async function close(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  server.close(() => resolve())
  // A kept-alive connection becomes idle only when its last answer is out.
  const idle = setInterval(() => server.closeIdleConnections(), 50)
  const forced = setTimeout(() => server.closeAllConnections(), graceMs)
  await promise
  clearInterval(idle)
  clearTimeout(forced)
}
