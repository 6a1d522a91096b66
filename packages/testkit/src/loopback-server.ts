// An HTTP server on a free port of loopback that can be cut off from everybody at once.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'

export interface LoopbackServer extends AsyncDisposable {
  /** `127.0.0.1:port`. */
  readonly host: string
  readonly url: string
  /** Ends all connections at once, as a restart would. */
  dropConnections(): void
  stop(): Promise<void>
}

type Serve = (request: IncomingMessage, response: ServerResponse) => void

export async function startLoopbackServer(serve: Serve, tls?: { key: string; cert: string }): Promise<LoopbackServer> {
  const sockets = new Set<Socket>()
  const server = tls === undefined ? createServer(serve) : createTlsServer(tls, serve)
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket)).on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  const host = `127.0.0.1:${address.port}`
  const dropConnections = (): void => sockets.forEach((socket) => socket.destroy())
  const stop = async (): Promise<void> => {
    dropConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  return { host, url: `${tls === undefined ? 'http' : 'https'}://${host}`, dropConnections, stop, [Symbol.asyncDispose]: stop }
}
