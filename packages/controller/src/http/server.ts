// The HTTP server: its limits on slow callers, its drain and its shutdown.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import type { Log } from '@muster/host'
import { FleetError, systemRoutes } from '@muster/protocol'
import { errorBody, starting } from './http-error.ts'
import type { RawHandler } from './inference.ts'

/**
 * Ten seconds for the headers. limitBody allows a minute for the body, except for uploads; the server's own timeout could not
 * exempt them.
 */
const limits = { headersTimeout: 10_000, requestTimeout: 0, keepAliveTimeout: 75_000, maxHeaderSize: 16 * 1024 }
const graceMs = 4_000
const checkEveryMs = 50
const bodyWithinMs = 60_000
const upload = /^\/api\/models\/[^/]+\/files\//

/** A bound address. Until `serve` is called, it answers /healthz and 503 `starting`. */
export interface ClaimedAddress {
  readonly port: number
  /** Requests that `raw` handles never reach `fetch`. */
  serve(handlers: { readonly fetch: Fetch; readonly raw: RawHandler }, log: Log): void
  /** From now on every answer closes its connection, so that clients open the next one elsewhere. */
  announceClose(): void
  /** The number of requests in progress. */
  requestCount(): number
  /** Accepts no new connections and closes idle ones. Resolves when no request is in progress, or at the signal. */
  drain(signal: AbortSignal): Promise<void>
  /** Closes everything. Requests in progress get a few seconds. */
  release(): Promise<void>
}
type Fetch = Parameters<typeof getRequestListener>[0]
type RequestListener = (request: IncomingMessage, response: ServerResponse) => void

export async function claimAddress({ host, port }: { host: string; port: number }): Promise<ClaimedAddress> {
  const whileStarting = getRequestListener(answerWhileStarting, { overrideGlobalObjects: false })
  let listener: RequestListener = (request, response) => void whileStarting(request, response)
  const open = new Set<ServerResponse>()
  let isClosing = false
  const server = createServer({ ...limits, connectionsCheckingInterval: 2_000 }, (request, response) => {
    open.add(response)
    response.once('close', () => open.delete(response))
    if (isClosing) response.setHeader('connection', 'close')
    listener(request, response)
  })
  const listening = Promise.withResolvers<void>()
  server.once('error', (error) => listening.reject(explain(error, host, port)))
  server.listen({ host, port }, listening.resolve)
  await listening.promise
  server.removeAllListeners('error')
  return {
    port: (server.address() as AddressInfo).port,
    serve({ fetch, raw }, log) {
      server.on('error', (error) => log.error('HTTP server failed', { error }))
      const others = getRequestListener(fetch, { overrideGlobalObjects: false })
      listener = (request, response) => {
        limitBody(request, response)
        if (!raw(request, response)) void others(request, response)
      }
    },
    announceClose() {
      isClosing = true
      for (const response of open) if (!response.headersSent) response.setHeader('connection', 'close')
    },
    requestCount: () => open.size,
    async drain(signal) {
      server.close()
      const { promise, resolve } = Promise.withResolvers<void>()
      const check = (): void => {
        // A kept-alive connection becomes idle only after its last response.
        server.closeIdleConnections()
        // A connection without a request, such as a browser's spare one, does not count.
        if (open.size === 0 || signal.aborted) resolve()
      }
      check()
      const checks = setInterval(check, checkEveryMs)
      await promise
      clearInterval(checks)
    },
    release: () => close(server, open),
  }
}

/** Ends requests whose body arrives too slowly. Long polls and event streams are responses and not affected. */
function limitBody(request: IncomingMessage, response: ServerResponse): void {
  const { method, url = '', headers } = request
  const hasBody = headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
  if (!hasBody || (method === 'PUT' && upload.test(url))) return
  const late = setTimeout(() => {
    if (request.complete) return
    if (!response.headersSent) response.writeHead(408, { connection: 'close' }).end()
    request.destroy()
  }, bodyWithinMs)
  late.unref()
  request.once('close', () => clearTimeout(late))
  request.once('end', () => clearTimeout(late))
}

function answerWhileStarting({ url }: Request): Response {
  const { pathname } = new URL(url)
  if (pathname === systemRoutes.healthz.path) return Response.json({ status: 'ok' })
  const error = starting()
  return Response.json(errorBody(pathname, error), { status: error.status, headers: error.headers })
}

function explain(error: NodeJS.ErrnoException, host: string, port: number): FleetError {
  const why: Record<string, string> = {
    EADDRINUSE: `port ${port} on ${host} is in use; stop the program that uses it, or choose another port with --port`,
    EACCES: `no permission to listen on port ${port}; choose one above 1023 with --port`,
    EADDRNOTAVAIL: `${host} is not an address of this machine; choose one with --host`,
  }
  const message = why[error.code ?? ''] ?? `cannot listen on ${host}:${port}: ${error.message}`
  return new FleetError({ code: 'unavailable', retry: 'never', message }, { cause: error })
}

async function close(server: Server, open: ReadonlySet<ServerResponse>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  server.close(() => resolve())
  const idle = setInterval(() => (open.size === 0 ? server.closeAllConnections() : server.closeIdleConnections()), checkEveryMs)
  const forced = setTimeout(() => server.closeAllConnections(), graceMs)
  await promise
  clearInterval(idle)
  clearTimeout(forced)
}
