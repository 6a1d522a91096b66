// Which headers of a backend's answer go on to the client. A list of what may pass, not of what may not: a backend must
// not set cookies for the controller's pages, allow other sites to read them, or speak for the connection.
import type { IncomingHttpHeaders } from 'node:http'

const passed = ['content-type', 'content-length', 'content-encoding', 'cache-control', 'retry-after']

export function passedHeaders(headers: IncomingHttpHeaders): string[] {
  const given: string[] = []
  for (const name of passed) {
    const value = headers[name]
    if (typeof value === 'string') given.push(name, value)
  }
  return given
}

export const isEventStream = (headers: IncomingHttpHeaders): boolean =>
  headers['content-type']?.startsWith('text/event-stream') === true && headers['content-length'] === undefined
