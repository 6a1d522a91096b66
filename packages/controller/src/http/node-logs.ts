// GET /api/nodes/:id/logs: as text, or line by line as events while somebody follows.
import { Readable, Transform } from 'node:stream'
import { nodeRoutes as routes } from '@muster/protocol'
import type { PrincipalWatch } from '../auth/principal-watch.ts'
import type { OpenNodeLogs } from '../nodes/open-node-logs.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { notFound } from './http-error.ts'

const asText = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }
const asEvents = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no' }
/** A process may write without ever ending a line. */
const maxLineBytes = 64 * 1024

export function nodeLogEndpoints({ openLogs, principalWatch }: { openLogs: OpenNodeLogs; principalWatch: PrincipalWatch }): Endpoint[] {
  return [
    endpoint(routes.logs, async ({ params, query, principal, isHead, signal }) => {
      const follow = query.follow === 'true'
      const headers = follow ? asEvents : asText
      if (isHead) return new Response(null, { headers })
      const ending = new AbortController()
      const opened = await openLogs(params.id, { model: query.model, follow, signal: AbortSignal.any([signal, ending.signal]) })
      if (opened === null) throw notFound(`there is no node ${params.id}; GET /api/nodes lists them`)
      if (opened === 'none') return new Response('', { headers })
      const letGo = principalWatch.hold(principal, () => ending.abort())
      opened.once('close', letGo)
      // Whoever follows learns of an end by the end of the stream.
      opened.on('error', () => undefined)
      const body = follow ? opened.compose(linesAsEvents()) : opened
      return new Response(Readable.toWeb(body) as ReadableStream<Uint8Array>, { headers })
    }),
  ]
}

/** One event per line. A comment first, so that whoever follows knows that it has begun. */
function linesAsEvents(): Transform {
  let rest = ''
  const decoder = new TextDecoder()
  const eventOf = (line: string): string => `data: ${line.replace(/\r$/, '').replaceAll('\r', ' ')}\n\n`
  return new Transform({
    construct(callback) {
      this.push(': connected\n\n')
      callback()
    },
    transform(chunk: Buffer, _, callback) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > maxLineBytes) {
        lines.push(rest)
        rest = ''
      }
      callback(null, lines.length === 0 ? undefined : lines.map(eventOf).join(''))
    },
    flush(callback) {
      callback(null, rest === '' ? undefined : eventOf(rest))
    },
  })
}
