// Decisions about replicas: the differences between the list of a heartbeat and the stored ones, the fate of those without a
// load, and the check questions for a new one with the verdict on its answers. Pure.
import { type Load, type LoadEvent, OperationId, type ReplicaId, type ReplicaState, type ReplicaView, unreachable } from '@muster/protocol'
import { z } from 'zod'
import type { ReplicaRecord } from '../store/replicas.ts'

/** The replica list of a heartbeat, with the sequence number and age of the heartbeat. */
export interface ReplicaList {
  readonly incarnation: string
  readonly seq: number
  /** Time since the heartbeat arrived. */
  readonly ageMs: number
  readonly replicas: readonly Readonly<{ replica_id: ReplicaId; state: ReplicaState }>[]
}
export type Finding =
  | Readonly<{ id: ReplicaId; is: 'ready' }>
  /** Without a reason, because the event was lost. */
  | Readonly<{ id: ReplicaId; is: 'exited' }>
  /** A process without a row is unloaded by its ID. */
  | Readonly<{ id: ReplicaId; is: 'orphan' }>

/** Prefix of the IDs that loads assign. Workers assign other IDs to processes that older controllers start. */
export const replicaPrefix = 'r'
const isOfLoad = (id: ReplicaId): boolean => id.startsWith(`${replicaPrefix}-`)

/** A list is made, sent and received within this time. */
const travelMs = 1_000
/** A starting replica without a load that its worker does not list for this long was never accepted. */
const forgottenMs = 30_000

export function compareReplicas(known: readonly ReplicaRecord[], list: ReplicaList): Finding[] {
  const listed = new Map(list.replicas.map((replica) => [replica.replica_id, replica.state]))
  const found = known.flatMap((replica) => compareReplica(replica, listed.get(replica.id), list))
  const ids = new Set(known.map(({ id }) => id))
  const orphans = list.replicas.filter(({ replica_id: id, state }) => !ids.has(id) && isOfLoad(id) && state !== 'exited')
  return [...found, ...orphans.map(({ replica_id: id }): Finding => ({ id, is: 'orphan' }))]
}

function compareReplica(replica: ReplicaRecord, state: ReplicaState | undefined, list: ReplicaList): Finding[] {
  if (replica.state === 'exited' || isOlder(list, replica)) return []
  const { id } = replica
  switch (state) {
    case 'ready':
      return replica.state === 'starting' || isUnconfirmed(replica, list) ? [{ id, is: 'ready' }] : []
    case 'exited':
      return [{ id, is: 'exited' }]
    case 'starting':
    case 'draining':
      return []
    case undefined:
      return isGone(replica, list) ? [{ id, is: 'exited' }] : []
    default:
      return unreachable(state)
  }
}

/** The worker restarted since its last report and found the process again. */
const isUnconfirmed = ({ state, stamp }: ReplicaRecord, { incarnation }: ReplicaList): boolean =>
  state === 'ready' && stamp !== null && stamp.incarnation !== incarnation

/** Workers number their messages: the last report about this replica may be newer than the list. */
const isOlder = ({ incarnation, seq }: ReplicaList, { stamp }: ReplicaRecord): boolean =>
  stamp !== null && stamp.incarnation === incarnation && seq <= stamp.seq

/** The list lacks the replica. A load that was sent just now may be missing in a list that was made before. */
function isGone({ state, ageMs, hasLoad }: ReplicaRecord, list: ReplicaList): boolean {
  // A load queries its starting replica; replicas without a load are not queried.
  if (state === 'starting') return !hasLoad && ageMs > list.ageMs + forgottenMs
  return ageMs > list.ageMs + travelMs
}

/** `wait`: a load may still be refused because of this replica, and then take it. */
type Fate = Readonly<{ do: 'drain' } | { do: 'wait' } | { do: 'return'; to: Load }>

type UnownedReplica = Pick<ReplicaRecord, 'revision' | 'opId' | 'nodeId' | 'state' | 'isNodeDraining'>

/** For a replica without a load: its node was absent, or its model changed. `loads`: the current loads of its model. */
export function fateOf(replica: UnownedReplica, loads: readonly Load[]): Fate {
  // A replica of an older revision drains: no load needs it, and the new one needs its memory.
  const serving = loads.filter(({ purpose, revision }) => purpose === 'serve' && revision === replica.revision)
  if (replica.opId === null) return { do: 'drain' }
  const open = serving.find(isOpen)
  if (open !== undefined) return canReturn(replica) ? { do: 'return', to: open } : { do: 'wait' }
  return serving.some((load) => isInTheWayOf(replica, load)) ? { do: 'wait' } : { do: 'drain' }
}

/** A replica that starts on a draining node is useless: its load would leave the node again. A ready one keeps serving. */
const canReturn = ({ state, isNodeDraining }: UnownedReplica): boolean => state === 'ready' || !isNodeDraining

const isOpen = ({ state }: Load): boolean => state === 'waiting' || state === 'failed' || state === 'installing'

/** The node may refuse the load because of this replica; then the load can take it. */
const isInTheWayOf = ({ nodeId }: Pick<ReplicaRecord, 'nodeId'>, load: Load): boolean => load.state === 'starting' && load.nodeId === nodeId

/** Event of the load that takes the replica back. */
export const returnOf = ({ id, nodeId, opId, state }: ReplicaRecord): Extract<LoadEvent, { type: 'returned' }> => ({
  ...{ type: 'returned', nodeId, replicaId: id, opId: OperationId.parse(opId), isReady: state === 'ready' },
})

/** Facts that are not stored with a replica. */
export interface ReplicaFacts {
  readonly inFlight: (id: ReplicaId) => number
  /** Null: in rotation on this controller. */
  readonly rotationNote: (id: ReplicaId) => Readonly<{ since: string; reason: string }> | null
  /** A node that was not heard for this long may have lost its replicas. */
  readonly unknownAfterMs: number
}

/** As the API shows it. */
export function viewReplica(replica: ReplicaRecord, facts: ReplicaFacts): ReplicaView {
  const { id, model, revision, state, nodeId, nodeName, isReachable, backendDigest, createdAt, exitedAt } = replica
  const isLive = state !== 'exited'
  const note = isLive ? facts.rotationNote(id) : null
  const unknown = isLive ? unknownSince(replica, facts) : null
  return {
    ...{ id, model, revision, node_id: nodeId, node_name: nodeName, state, backend_digest: backendDigest, started_at: createdAt },
    exited_at: exitedAt,
    reachable: isLive && isReachable && unknown === null,
    in_flight: isLive ? facts.inFlight(id) : 0,
    unknown_since: unknown,
    out_of_rotation: note,
  }
}

/** The last heartbeat of a node that is silent. Its replica may have exited since. */
const unknownSince = ({ heardAt, heardMs }: ReplicaRecord, { unknownAfterMs }: ReplicaFacts): string | null =>
  heardMs !== null && heardMs > unknownAfterMs ? heardAt : null

// Checks: the questions for a new replica, and the verdict on its answers.

export interface Question {
  readonly path: string
  readonly body: object
  /** The model's configuration lists this use; otherwise it is only tried. */
  readonly isKnown: boolean
}

export type Answer =
  | Readonly<{ is: 'answer'; status: number; body: string }>
  /** No bytes arrived for this long. */
  | Readonly<{ is: 'silence'; afterMs: number }>
  /** The answer broke off or came from another process: the network may be the cause. */
  | Readonly<{ is: 'no_answer'; why: string }>

export type Verdict =
  | Readonly<{ is: 'passed' }>
  /** The replica does not serve this path; the next question follows. */
  | Readonly<{ is: 'not_served' }>
  | Readonly<{ is: 'unclear'; why: string }>
  | Readonly<{ is: 'failed'; cause: string }>

/** Enough for an answer, and few enough for a backend without a GPU. */
const maxTokens = 4

const kinds = [
  {
    path: '/v1/chat/completions',
    usecase: 'chat',
    fields: { messages: [{ role: 'user', content: 'Say OK.' }], max_tokens: maxTokens },
  },
  { path: '/v1/completions', usecase: 'completion', fields: { prompt: 'One, two,', max_tokens: maxTokens } },
  { path: '/v1/embeddings', usecase: 'embedding', fields: { input: 'OK' } },
] as const

/** The questions in order; none when the model is for other uses. */
export function questionsFor({ model, usecases }: { readonly model: string; readonly usecases: readonly string[] }): Question[] {
  const isListed = (usecase: string): boolean => usecases.some((each) => each.toLowerCase().startsWith(usecase))
  return kinds
    .filter(({ usecase }) => usecases.length === 0 || isListed(usecase))
    .map(({ path, usecase, fields }) => ({ path, body: { model, ...fields }, isKnown: isListed(usecase) }))
}

export function judgeAnswer({ path, isKnown }: Question, answer: Answer): Verdict {
  switch (answer.is) {
    case 'silence':
      return { is: 'failed', cause: `${path} was not answered within ${Math.round(answer.afterMs / 1000)} s` }
    case 'no_answer':
      return { is: 'unclear', why: answer.why }
    case 'answer':
      return judgeStatus({ path, isKnown }, answer)
    default:
      return unreachable(answer)
  }
}

const Completion = z.object({ choices: z.array(z.object({})).min(1) })
const Embeddings = z.object({ data: z.array(z.object({ embedding: z.union([z.array(z.number()).min(1), z.string().min(1)]) })).min(1) })
const UnknownModel = z.object({ error: z.object({ code: z.literal('model_not_found') }) })
const Refusal = z.object({ error: z.union([z.string(), z.object({ message: z.string() })]) })

function judgeStatus({ path, isKnown }: Pick<Question, 'path' | 'isKnown'>, { status, body }: { status: number; body: string }): Verdict {
  const isAboutRoute = status === 404 || status === 405 || status === 501
  if (isAboutRoute && !isModelUnknown(body)) return { is: 'not_served' }
  // A use that the configuration does not list may be refused with any 4xx.
  if (status >= 400 && status < 500 && !isKnown && !isAboutRoute) return { is: 'not_served' }
  if (status !== 200) return { is: 'failed', cause: `${path} answered ${status}: ${messageOf(body)}` }
  const json = parsed(body)
  if (Completion.safeParse(json).success || Embeddings.safeParse(json).success) return { is: 'passed' }
  return { is: 'failed', cause: `${path} answered unexpectedly: ${excerpt(body)}` }
}

/** The replica has the route but does not know the model. */
const isModelUnknown = (body: string): boolean => UnknownModel.safeParse(parsed(body)).success

function messageOf(body: string): string {
  const refusal = Refusal.safeParse(parsed(body))
  if (!refusal.success) return excerpt(body)
  const { error } = refusal.data
  return excerpt(typeof error === 'string' ? error : error.message)
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

const maxExcerpt = 500
/** One line, no control characters. */
function excerpt(text: string): string {
  const line = text.replaceAll(/[\p{C}\s]+/gu, ' ').trim()
  if (line === '') return 'nothing'
  return line.length > maxExcerpt ? `${line.slice(0, maxExcerpt)}…` : line
}
