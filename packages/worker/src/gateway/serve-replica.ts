// Serves one request to one replica, which counts as in flight until it is over, and the logs of replicas.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import type { Log } from '@muster/host'
import {
  failureOf,
  gatewayScope,
  inFlightHeader,
  ModelName,
  type RefusalReason,
  refusedHeader,
  replicaHeader,
  ReplicaId,
} from '@muster/protocol'
import type { Admission, Replicas } from '../supervisor/replicas.ts'
import type { Authorize } from './authorize.ts'
import { notFound, refuse, respond, watchBody } from './respond.ts'

export type ReplicaDeps = Readonly<{ replicas: Pick<Replicas, 'admit'>; authorize: Authorize; log: Log }>

export const replicaPrefix = '/replicas/'

export async function serveReplica(deps: ReplicaDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = request.url ?? ''
  const [, named, path] = /^\/replicas\/([^/?]{1,64})(\/[^#]*)$/.exec(url) ?? []
  const id = ReplicaId.safeParse(named)
  if (!id.success || path === undefined) return notFound(response, url)
  if (deps.authorize(request, response, gatewayScope.replica(id.data)) === null) return
  // Without chunks a complete and a cut response look the same.
  if (request.httpVersion !== '1.1') return refuse(response, 505, 'invalid', 'requests to replicas need HTTP/1.1')

  const found = deps.replicas.admit(id.data)
  if (found === 'gone')
    return rejectRequest(response, id.data, { refused: 'gone', status: 404, message: 'this replica is not on this node' })
  if (found === 'draining') {
    return rejectRequest(response, id.data, {
      refused: 'draining',
      status: 503,
      message: 'this replica is being stopped and takes no new requests',
    })
  }
  using admission = found
  try {
    watchBody(response)
    if (request.headers.expect !== undefined) response.writeContinue()
    await admission.connection.handle(request, response, { path, headers: answerHeaders(id.data, admission) })
  } catch (error) {
    reportFailure(deps, response, { id: id.data, error })
  }
}

/** The count is read when the response begins, which may be much later. */
const answerHeaders = (id: ReplicaId, admission: Admission): Record<string, string> => ({
  [replicaHeader]: id,
  get [inFlightHeader]() {
    return String(admission.inFlight())
  },
})

type ReplicaRejection = Readonly<{ refused: RefusalReason | null; status: number; message: string }>

/** In OpenAI's envelope, since the client gets it unchanged when no other replica is left. */
function rejectRequest(response: ServerResponse, id: ReplicaId, { refused, status, message }: ReplicaRejection): void {
  const code = refused === null ? 'backend_failed' : `replica_${refused}`
  const reason = refused === null ? {} : { [refusedHeader]: refused }
  respond(response, status, { error: { message, type: 'server_error', param: null, code } }, { [replicaHeader]: id, ...reason })
}

function reportFailure({ log }: ReplicaDeps, response: ServerResponse, { id, error }: { id: ReplicaId; error: unknown }): void {
  const { code, message } = failureOf(error)
  if (response.destroyed || response.writableEnded) return
  log.warn('replica did not answer', { replica_id: id, reason: message })
  // A response that has begun is cut, so that the client sees that it is incomplete.
  if (response.headersSent) response.destroy()
  else rejectRequest(response, id, { refused: code === 'unavailable' ? 'unreachable' : null, status: 502, message })
}

export type LogDeps = Readonly<{ openLog: Replicas['openLog']; authorize: Authorize }>

export async function serveLogs({ openLog, authorize }: LogDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://gateway')
  if (request.method !== 'GET') return notFound(response, pathname)
  if (authorize(request, response, gatewayScope.logs) === null) return
  const model = ModelName.nullable().safeParse(searchParams.get('model'))
  const replicaId = ReplicaId.nullable().safeParse(searchParams.get('replica'))
  if (!model.success || !replicaId.success) return refuse(response, 400, 'invalid', 'invalid model or replica')
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const follow = searchParams.get('follow') === 'true'
  const stream = openLog({ model: model.data, replicaId: replicaId.data, follow, signal: gone.signal })
  response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' })
  response.flushHeaders()
  await pipeline(stream, response).catch(() => response.destroy())
}
