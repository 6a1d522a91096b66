// Stands in for a controller in tests of the client commands: answers what the test scripts, in the
// shapes of the protocol, and keeps what it was asked. It decides nothing; the real controller is
// exercised in the end-to-end tests.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NodeView, OperationNode, OperationView, type ResponseOf, type Route } from '@muster/protocol'

export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
}

type Reply = (request: ReceivedRequest, response: ServerResponse) => void

export interface ScriptedController extends AsyncDisposable {
  readonly url: string
  readonly asked: readonly ReceivedRequest[]
  /** Sets the answer of a route; throws when it does not match the route's schema. */
  answer<T extends Route>(route: T, body: ResponseOf<T>, extra?: object): void
  refuse(route: Route, status: number, error: { code: string; message: string }): void
  /** Anything else that can come over a socket. */
  reply(route: Route, reply: Reply): void
  /** To everybody who follows the events. */
  emit(event: { type: string; id?: string; data: unknown }): void
  followers(): number
  dropFollowers(): void
  /** As a process that was killed: nothing listens, every connection is broken. */
  goAway(): Promise<void>
  /** The same address again, as after a restart. */
  comeBack(): Promise<void>
}

export const adminKey = 'scripted-admin-key'

export async function startScriptedController(): Promise<ScriptedController> {
  const replies: { route: Route; reply: Reply }[] = []
  const asked: ReceivedRequest[] = []
  const followers = new Set<ServerResponse>()

  const server = createServer((request, response) => void serve(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname: path, search: query } = new URL(request.url ?? '/', 'http://x')
    const entry: ReceivedRequest = { method: request.method ?? '', path, query, headers: request.headers, body: await bodyOf(request) }
    asked.push(entry)
    if (path === '/api/events' && !replies.some(({ route }) => route.path === path)) return follow(response)
    const found = replies.findLast(({ route }) => route.method === entry.method && matches(route.path, path))
    if (found === undefined) return send(response, 404, { error: { code: 'not_found', message: `${path} is not scripted` } })
    found.reply(entry, response)
  }

  function follow(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(': hello\n\n')
    followers.add(response)
    response.on('close', () => followers.delete(response))
  }
  const dropFollowers = (): void => {
    for (const response of followers) response.destroy()
  }

  async function goAway(): Promise<void> {
    dropFollowers()
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }

  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    answer: (route, body, extra = {}) => {
      route.response?.parse(body)
      replies.push({
        route,
        reply: (_, response) =>
          send(response, route.status ?? 200, route.response === undefined ? undefined : { ...(body as object), ...extra }),
      })
    },
    refuse: (route, status, error) => void replies.push({ route, reply: (_, response) => send(response, status, { error }) }),
    reply: (route, reply) => void replies.push({ route, reply }),
    emit: ({ type, id, data }) => {
      for (const response of followers)
        response.write(`event: ${type}\n${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`)
    },
    followers: () => followers.size,
    dropFollowers,
    goAway,
    comeBack: async () => {
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
    },
    [Symbol.asyncDispose]: goAway,
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, body === undefined ? {} : { 'content-type': 'application/json' })
  response.end(body === undefined ? undefined : JSON.stringify(body))
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  if (text === '') return undefined
  return request.headers['content-type'] === 'application/json' ? JSON.parse(text) : text
}

const matches = (pattern: string, path: string): boolean => new RegExp(`^${pattern.replaceAll(/:[a-z_]+/g, '[^/]+')}$`).test(path)

export const nodeView = (some: Partial<Record<keyof NodeView, unknown>> = {}): NodeView =>
  NodeView.parse({
    id: 'node-aaaaaaaaaaaaaaaaaaaa',
    name: 'gpu-1',
    node_type: 'backend',
    status: 'healthy',
    status_reason: 'receiving heartbeats',
    draining: false,
    labels: { 'node.name': 'gpu-1' },
    vram_budget: null,
    resources: { cpus: 8, total_ram: 64e9, available_ram: 32e9 },
    version: '0.1.0',
    os: 'linux',
    arch: 'x64',
    capability: 'nvidia-cuda-12',
    features: ['async'],
    gateway_url: 'http://10.0.0.5:9000',
    public_key: `U${'A'.repeat(55)}`,
    created_at: '2030-01-01T00:00:00Z',
    approved_at: '2030-01-01T00:00:00Z',
    last_seen_at: '2030-01-01T00:00:00Z',
    in_flight: 0,
    models: [],
    backends: ['llama'],
    pending_ops: 0,
    ...some,
  })

export const operationNode = (some: Partial<Record<keyof OperationNode, unknown>> = {}): OperationNode =>
  OperationNode.parse({
    node_id: 'node-aaaaaaaaaaaaaaaaaaaa',
    node_name: 'gpu-1',
    status: 'downloading',
    phase: 'downloading',
    message: '',
    file_name: 'sha256:ab… (2/6)',
    current: 1_000_000_000,
    total: 4_000_000_000,
    percentage: 25,
    attempts: 0,
    next_retry_at: null,
    dead: false,
    ring: null,
    error: null,
    error_code: null,
    ...some,
  })

export const operationView = (some: Partial<Record<keyof OperationView, unknown>> = {}): OperationView =>
  OperationView.parse({
    id: 'op-1',
    kind: 'backend.install',
    backend: 'llama',
    model: null,
    state: 'running',
    message: '0 of 1 nodes done',
    progress: 25,
    file_name: '',
    current_bytes: 1_000_000_000,
    total_bytes: 4_000_000_000,
    created_at: '2030-01-01T00:00:00Z',
    finished_at: null,
    requested_by: 'admin',
    nodes: [operationNode()],
    ...some,
  })
