// A request whose body stops coming is ended. Only the sender is timed: as long as something lies here unread, it is not
// the one to wait for; and once the body is there, an answer may take hours.
import type { ServerResponse } from 'node:http'

const idleMs = 30_000

export function watchBody(response: ServerResponse, limitMs = idleMs): void {
  const request = response.req
  if (request.complete) return
  const { socket } = request
  socket.setTimeout(limitMs)
  request.on('timeout', () => {
    if (!request.complete && request.readableLength === 0) request.destroy()
  })
  // Where nobody listens, node ends the connection by itself, also of a request that is all there.
  response.on('timeout', () => undefined)
  const over = (): void => {
    socket.setTimeout(0)
  }
  request.once('end', over)
  request.once('close', over)
}
