// A controller as far as a worker sees one: register, session and heartbeat over real HTTP, with the
// real signature check, and a hand on what it answers. It keeps its rows in memory.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { createRequestVerifier, newId, sha256Hex } from '@muster/host'
import { NodeId, nodeAgentRoutes, Registration, type Session } from '@muster/protocol'

export interface FakeNode {
  readonly id: NodeId
  registration: Registration
  approved: boolean
  registrations: number
}

export interface FakeCluster {
  readonly token: string
  readonly nodes: Map<string, FakeNode>
  bus: NonNullable<Session['bus']>
  settings: Session['settings']
  /** Polls are answered at once, as after their half minute. */
  isImpatient: boolean
  /** Wakes the waiting polls; each reads its response again. */
  changed(): void
}

export interface Answer {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface FakeController extends AsyncDisposable {
  readonly url: string
  readonly port: number
  readonly polls: { readonly id: string; readonly known: string | undefined; readonly incarnation: string | undefined }[]
  readonly requests: { readonly path: string; readonly body: unknown }[]
  /** While set, every request gets this answer (or, null, the real one). */
  intercept: ((path: string) => Answer | null) | null
  now: () => Date
  /** Accepts requests and never answers, as a stopped process does. */
  isFrozen: boolean
  /** Cuts every connection and listens no more. */
  stop(): Promise<void>
}

export function createFakeCluster({ token = 'right', busUrl = 'local:' } = {}): FakeCluster & {
  onChange(listener: () => void): () => void
} {
  const listeners = new Set<() => void>()
  return {
    token,
    nodes: new Map(),
    bus: { url: busUrl, credentials: null, expires_at: null },
    isImpatient: false,
    settings: { heartbeat_interval_ms: 50, controllers: [], allow_source: [], galleries: [] },
    changed: () => listeners.forEach((listener) => listener()),
    onChange: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

type Cluster = ReturnType<typeof createFakeCluster>

export const apiError = (status: number, code: string, details?: object): Answer => ({
  status,
  body: { error: { code, message: `because of ${code}`, ...(details === undefined ? {} : { details }) } },
})

export async function startFakeController(cluster: Cluster, port = 0): Promise<FakeController> {
  const verify = createRequestVerifier()
  const stopping = new AbortController()
  const state = { polls: [], requests: [], intercept: null, now: () => new Date(), isFrozen: false } as Pick<
    FakeController,
    'polls' | 'requests' | 'intercept' | 'now' | 'isFrozen'
  >

  const handle = async (request: IncomingMessage): Promise<Answer> => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const path = request.url ?? ''
    state.requests.push({ path, body: JSON.parse(body.toString()) })
    const planned = state.intercept?.(path) ?? null
    if (planned !== null) return planned
    const now = state.now()
    const verified = verify({ method: request.method ?? '', path, body, headers: request.headers, now })
    if (!verified.ok) return apiError(401, verified.code, verified.code === 'clock_skew' ? { now: now.toISOString() } : undefined)
    return answer({ cluster, state, path, json: JSON.parse(body.toString()), key: verified.publicKey, request, signal: stopping.signal })
  }
  const server = createServer((request, response) => {
    if (state.isFrozen) return
    handle(request).then(
      (planned) => send(response, planned),
      () => response.destroy(),
    )
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no address')
  const stop = async (): Promise<void> => {
    stopping.abort()
    server.close()
    server.closeAllConnections()
    if (server.listening) await once(server, 'close')
  }
  return Object.assign(state, { url: `http://127.0.0.1:${address.port}`, port: address.port, stop, [Symbol.asyncDispose]: stop })
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}

interface SessionPoll {
  readonly cluster: Cluster
  readonly state: Pick<FakeController, 'polls'>
  readonly path: string
  readonly json: unknown
  readonly key: string
  readonly request: IncomingMessage
  readonly signal: AbortSignal
}

function answer(poll: SessionPoll): Answer | Promise<Answer> {
  if (poll.path === nodeAgentRoutes.register.path) return register(poll)
  const id = /^\/api\/node\/([^/]+)\/session$/.exec(poll.path)?.[1]
  return id === undefined ? apiError(404, 'not_found') : session(poll, id)
}

function register({ cluster, json, key }: SessionPoll): Answer {
  const registration = Registration.parse(json)
  if (registration.public_key !== key) return apiError(401, 'bad_signature')
  const known = [...cluster.nodes.values()].find((node) => node.registration.public_key === key)
  if (known === undefined && registration.token !== cluster.token) return apiError(401, 'wrong_token')
  const node = known ?? { id: NodeId.parse(`node-${newId().slice(0, 8)}`), registration, approved: false, registrations: 0 }
  node.registration = registration
  node.registrations += 1
  cluster.nodes.set(node.id, node)
  cluster.changed()
  return {
    status: known === undefined ? 201 : 200,
    body: { id: node.id, name: registration.name, status: node.approved ? 'unhealthy' : 'pending' },
  }
}

async function session({ cluster, state, json, key, request, signal }: SessionPoll, id: string): Promise<Answer> {
  const { known, incarnation } = nodeAgentRoutes.session.body?.parse(json) ?? {}
  state.polls.push({ id, known, incarnation })
  for (;;) {
    const node = cluster.nodes.get(id)
    if (node === undefined || node.registration.public_key !== key) return apiError(404, 'unknown_node')
    if (incarnation !== undefined && incarnation !== node.registration.incarnation) return apiError(409, 'superseded')
    const current: Omit<Session, 'etag'> = {
      status: node.approved ? 'healthy' : 'pending',
      bus: node.approved ? cluster.bus : null,
      ...(node.approved ? { gateway_secret: 'gateway-secret' } : {}),
      settings: cluster.settings,
    }
    const etag = sha256Hex(JSON.stringify(current))
    const isNews = known === undefined ? current.bus !== null : etag !== known
    if (isNews || cluster.isImpatient) return { status: 200, body: { ...current, etag } }
    await nextChange(cluster, AbortSignal.any([signal, closed(request)]))
  }
}

function closed(request: IncomingMessage): AbortSignal {
  const controller = new AbortController()
  request.socket.once('close', () => controller.abort())
  return controller.signal
}

function nextChange(cluster: Cluster, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const off = cluster.onChange(() => {
      off()
      resolve()
    })
    signal.addEventListener('abort', () => {
      off()
      reject(new Error('gone'))
    })
  })
}
