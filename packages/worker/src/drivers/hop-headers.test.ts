import { describe, expect, it } from 'vitest'
import { toBackend, toCaller } from './forward.ts'

describe('to a backend', () => {
  it('passes the headers of a request unchanged', () => {
    const raw = ['Content-Type', 'application/json', 'content-length', '12', 'X-Request-Id', 'r', 'Accept', 'text/event-stream']
    expect(toBackend(raw)).toEqual(raw)
  })

  it.each([
    'Authorization',
    'cookie',
    'Host',
    'Connection',
    'Keep-Alive',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Expect',
    'X-Muster-Replica',
    'Proxy-Authorization',
  ])('SEC28 passes no %s', (name) => expect(toBackend([name, 'x', 'accept', '*/*'])).toEqual(['accept', '*/*']))

  it('drops headers that Connection names, except the length', () => {
    expect(toBackend(['Connection', 'close, X-Private', 'x-private', '1', 'y', '2'])).toEqual(['y', '2'])
    expect(toBackend(['Connection', 'content-length', 'Content-Length', '5'])).toEqual(['Content-Length', '5'])
  })
})

it.each(['Set-Cookie', 'Connection', 'Keep-Alive', 'Transfer-Encoding', 'x-muster-refused', 'X-Muster-Replica', 'Clear-Site-Data'])(
  'a backend cannot send %s to callers',
  (name) => expect(toCaller([name, 'x', 'content-type', 'text/plain'])).toEqual(['content-type', 'text/plain']),
)
