import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { watchBody } from './respond.ts'

const server = createServer()
afterEach(() => {
  server.removeAllListeners('request')
  server.close()
  server.closeAllConnections()
})

async function send(
  answer: (request: IncomingMessage) => void,
  body: string,
): Promise<{ closed: Promise<unknown>; answered: () => string }> {
  server.on('request', (request, response) => {
    watchBody(response, 200)
    answer(request)
    request.once('end', () => setTimeout(() => response.end('late'), 600))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const bound = server.address()
  const socket = connect(typeof bound === 'object' ? (bound?.port ?? 0) : 0, '127.0.0.1')
  let answered = ''
  socket.on('data', (data) => (answered += data.toString())).on('error', () => undefined)
  socket.write(`POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\n${body}`)
  return { closed: once(socket, 'close'), answered: () => answered }
}

it('G21 a stalled body ends the request', async () => {
  const { closed, answered } = await send((request) => request.resume(), 'half')
  await closed
  expect(answered()).toBe('')
})

it('a response may take longer than a body', async () => {
  const { closed, answered } = await send((request) => request.resume(), '0123456789')
  await closed
  expect(answered()).toContain('late')
})

it('G17 a sender is not timed while received bytes are unread', async () => {
  const { closed, answered } = await send((request) => void setTimeout(() => request.resume(), 600), '0123456789')
  await closed
  expect(answered()).toContain('late')
})
