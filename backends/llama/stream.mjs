// Server-sent events in OpenAI's shapes. Nothing is sent before the first token, so that an error
// still gets its own status.
import { randomUUID } from 'node:crypto'

export const newAnswer = (prefix, model) => ({
  id: `${prefix}-${randomUUID().replaceAll('-', '')}`,
  created: Math.floor(Date.now() / 1000),
  model,
  system_fingerprint: null,
})

export function startStream(response, { about, body }) {
  const withUsage = body.stream_options?.include_usage === true
  const open = () => {
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  }
  const write = (chunk) => {
    open()
    if (!response.destroyed && !response.writableEnded) response.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }
  return {
    send: (choices) => write({ ...about, choices, ...(withUsage ? { usage: null } : {}) }),
    /** Undefined: there is nothing more to send. */
    end(usage) {
      if (withUsage) write({ ...about, choices: [], usage })
      open()
      response.end('data: [DONE]\n\n')
    },
  }
}
