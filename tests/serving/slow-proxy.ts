// A line to a server that carries so many bytes a second and no more; whatever goes wrong behind it goes wrong before it.
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

export interface SlowProxy extends AsyncDisposable {
  /** As in an image reference. */
  readonly host: string
  /** Bytes that came back from the server, over all connections. */
  carried(): number
  /** Bytes a second from now on. */
  speed(bytesPerSecond: number): void
}

const everyMs = 20

export async function startSlowProxy(target: string): Promise<SlowProxy> {
  const [address = '', port = ''] = target.split(':')
  const sockets = new Set<Socket>()
  let perSecond = Number.POSITIVE_INFINITY
  let carried = 0
  const carry = async (from: Socket, to: Socket): Promise<void> => {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      for (let at = 0; at < chunk.length && !to.destroyed;) {
        const piece = chunk.subarray(at, Math.min(at + Math.ceil((perSecond * everyMs) / 1000), chunk.length))
        at += piece.length
        carried += piece.length
        if (!to.write(piece)) await new Promise((resolve) => to.once('drain', resolve).once('close', resolve))
        if (Number.isFinite(perSecond)) await delay(everyMs)
      }
    }
    to.end()
  }
  const server = createServer((client) => {
    const upstream = connect(Number(port), address)
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy()).once('close', () => sockets.delete(one))
    }
    client.pipe(upstream)
    carry(upstream, client).catch(() => client.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const own = server.address()
  if (own === null || typeof own === 'string') throw new Error('not listening on a port')
  return {
    host: `127.0.0.1:${own.port}`,
    carried: () => carried,
    speed: (bytesPerSecond) => void (perSecond = bytesPerSecond),
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
