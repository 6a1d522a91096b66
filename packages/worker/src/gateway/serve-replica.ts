// One request to one replica. It counts as in flight from here until it is over, however it ends.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Log } from '@muster/host'
import { failureOf, gatewayScope, inFlightHeader, refusedHeader, ReplicaId, replicaHeader, type RefusalReason } from '@muster/protocol'
import type { Admission, Replicas } from '../supervisor/replicas.ts'
import type { Authorise } from './authorise.ts'
import { notFound, refuse, respond } from './respond.ts'
import { watchBody } from './watch-body.ts'

export type ReplicaDeps = Readonly<{ replicas: Pick<Replicas, 'admit'>; authorise: Authorise; log: Log }>

export const replicaPrefix = '/replicas/'

export async function serveReplica(deps: ReplicaDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = request.url ?? ''
  const [, named, path] = /^\/replicas\/([^/?]{1,64})(\/[^#]*)$/.exec(url) ?? []
  const id = ReplicaId.safeParse(named)
  if (!id.success || path === undefined) return notFound(response, url)
  if (deps.authorise(request, response, gatewayScope.replica(id.data)) === null) return
  // Without chunks the end of an answer and its being cut look the same.
  if (request.httpVersion !== '1.1') return refuse(response, 505, 'invalid', 'replicas are asked with HTTP/1.1')

  const found = deps.replicas.admit(id.data)
  if (found === 'gone') return turnAway(response, id.data, { refused: 'gone', status: 404, message: 'this replica is not here' })
  if (found === 'draining') {
    return turnAway(response, id.data, { refused: 'draining', status: 503, message: 'this replica takes nothing new: it is being stopped' })
  }
  using admission = found
  try {
    watchBody(response)
    if (request.headers.expect !== undefined) response.writeContinue()
    await admission.connection.handle(request, response, { path, headers: answerHeaders(id.data, admission) })
  } catch (error) {
    failed(deps, response, { id: id.data, error })
  }
}

/** The count is that of when the answer begins, which may be long after this. */
const answerHeaders = (id: ReplicaId, admission: Admission): Record<string, string> => ({
  [replicaHeader]: id,
  get [inFlightHeader]() {
    return String(admission.inFlight())
  },
})

type TurnedAway = Readonly<{ refused: RefusalReason | null; status: number; message: string }>

/** In OpenAI's envelope, since it may be shown as it is when no other replica is left to ask. */
function turnAway(response: ServerResponse, id: ReplicaId, { refused, status, message }: TurnedAway): void {
  const code = refused === null ? 'backend_failed' : `replica_${refused}`
  const says = refused === null ? {} : { [refusedHeader]: refused }
  respond(response, status, { error: { message, type: 'server_error', param: null, code } }, { [replicaHeader]: id, ...says })
}

function failed({ log }: ReplicaDeps, response: ServerResponse, { id, error }: { id: ReplicaId; error: unknown }): void {
  const { code, message } = failureOf(error)
  if (response.destroyed || response.writableEnded) return
  log.warn('a replica gave no answer', { replica_id: id, reason: message })
  // What has begun can't be taken back: whoever reads it must see that it is not whole.
  if (response.headersSent) response.destroy()
  else turnAway(response, id, { refused: code === 'unavailable' ? 'unreachable' : null, status: 502, message })
}
