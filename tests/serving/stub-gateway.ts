// A worker's gateway as controllers see it: a real HTTP server that checks tokens, names who answers, and does with each
// replica's requests what the test says.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { checkGatewayToken } from '@muster/host'
import { gatewayScope, ReplicaId } from '@muster/protocol'

export interface StubRequest {
  readonly replica: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  /** Resolves when the one who asked went away before the answer was out. */
  readonly aborted: Promise<void>
}
export type Behave = (request: StubRequest, response: ServerResponse) => void | Promise<void>

export interface StubGateway extends AsyncDisposable {
  readonly url: string
  readonly port: number
  readonly nodeId: string
  readonly secret: string
  readonly requests: StubRequest[]
  /** How many of them are not answered yet, in all or of one replica. */
  open(replica?: string): number
  /** Until told otherwise a replica answers with a short completion. */
  behave(replica: string, behave: Behave): void
  /** The same for all of which nothing else was said, also for those that come. */
  behaveUnlessTold(behave: Behave): void
  /** How it answers when it is asked for logs. */
  logs(answer: (url: string, response: ServerResponse) => void): void
  /** Ends every connection as `kill -9` would. */
  cut(): void
  /** Sends nothing more and answers nothing, also on new connections: a process that was stopped, or a machine that vanished. */
  freeze(): void
  stop(): Promise<void>
}

export const completion = (text: string): object => ({
  id: 'c-1',
  object: 'chat.completion',
  created: 1,
  model: 'stub',
  choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 },
})

export const answerJson =
  (body: object, status = 200): Behave =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

export const chunkOf = (text: string): string =>
  `data: ${JSON.stringify({ id: 'c-1', object: 'chat.completion.chunk', created: 1, model: 'stub', choices: [{ index: 0, delta: { content: text }, finish_reason: null }] })}\n\n`

export const refuse =
  (why: 'gone' | 'draining' | 'unreachable'): Behave =>
  (_, response) => {
    response.writeHead(503, { 'x-muster-refused': why, 'content-type': 'application/json' }).end('{}')
  }

export async function startStubGateway({
  nodeId,
  secret,
  port = 0,
}: {
  nodeId: string
  secret: string
  port?: number
}): Promise<StubGateway> {
  const requests: StubRequest[] = []
  const behaviours = new Map<string, Behave>()
  let usual: Behave = (request, response) => answerJson(completion(`from ${request.replica}`))(request, response)
  const sockets = new Set<Socket>()
  const open: string[] = []
  const openOf = (replica?: string): number => (replica === undefined ? open : open.filter((each) => each === replica)).length
  let onLogs: (url: string, response: ServerResponse) => void = (_, response) => void response.end()
  let isFrozen = false
  const server = createServer((request, response) => {
    if (isFrozen) return
    void (async () => {
      if (request.url?.startsWith('/logs') === true) {
        const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? ''
        const isAllowed = checkGatewayToken(token, { secret, nodeId, scope: gatewayScope.logs }) !== null
        response.writeHead(isAllowed ? 200 : 401, { 'content-type': 'text/plain' })
        onLogs(request.url, response)
        return
      }
      const [, replica = '', path = ''] = /^\/replicas\/([^/]+)(\/.*)$/.exec(request.url ?? '') ?? []
      const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? ''
      if (checkGatewayToken(token, { secret, nodeId, scope: gatewayScope.replica(ReplicaId.parse(replica)) }) === null) {
        response.writeHead(401).end()
        return
      }
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const aborted = Promise.withResolvers<void>()
      open.push(replica)
      response.on('close', () => {
        open.splice(open.indexOf(replica), 1)
        if (!response.writableFinished) aborted.resolve()
      })
      const seen = { replica, path, headers: request.headers, body: Buffer.concat(chunks).toString(), aborted: aborted.promise }
      requests.push(seen)
      response.setHeader('x-muster-replica', replica)
      response.setHeader('x-muster-in-flight', openOf(replica))
      await (behaviours.get(replica) ?? usual)(seen, response)
    })().catch(() => response.destroy())
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy()
  }
  const stop = async (): Promise<void> => {
    cut()
    if (server.listening) await new Promise((resolve) => server.close(resolve))
  }
  const address = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${address.port}`,
    port: address.port,
    nodeId,
    secret,
    requests,
    open: openOf,
    behave: (replica, behave) => void behaviours.set(replica, behave),
    behaveUnlessTold: (behave) => void (usual = behave),
    logs: (answer) => (onLogs = answer),
    cut,
    freeze: () => void (isFrozen = true),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
