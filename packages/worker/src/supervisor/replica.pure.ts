// The stages of one replica, from accepted to gone, and the one function that moves it; the decision on a command to load a model;
// the events, statuses and log fields of a replica, from its record. Pure.
//
//   accepted ──stage──▶ staging ──spawned──▶ starting ──ready──▶ ready ──drain──▶ draining
//      ▲                   │  └─staged (`stage_only`)▶ gone                        │
//      └───── again ───────┴──────────────── starting            stop, drained ────┴──▶ stopping ──exited──▶ gone
//
// `spawned`, `ready` and `exited` come from the code that watches the process; `drain` and `stop` from commands; `again` from a
// worker that stops, or that starts and finds a load without its process.
import { z } from 'zod'
import {
  type BackendName,
  Digest,
  Failure,
  type LoadModel,
  type OperationId,
  type OpStatusReply,
  type ReplicaId,
  type ReplicaState,
  unreachable,
} from '@muster/protocol'
import type { ReadinessPoll } from '../drivers/driver.ts'
import type { OutgoingEvent, ProgressState } from '../work/reports.ts'
import type { ReplicaRecord } from './replica.ts'

/** A null code and signal: this worker did not observe the exit. */
export const Exit = z.object({
  code: z.number().int().nullable(),
  signal: z.string().max(32).nullable(),
  lines: z.array(z.string().max(4096)).max(100),
})
export type Exit = z.infer<typeof Exit>

/** The process of a replica. */
export const Run = z.object({
  process: z.object({ pid: z.number().int().positive(), started: z.string().max(64), boot: z.string().max(64) }),
  address: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('tcp'), host: z.literal('127.0.0.1'), port: z.number().int().min(1).max(65_535) }),
    z.object({ kind: z.literal('unix'), path: z.string().max(108) }),
  ]),
  /** The tree that it runs from, and the directory of the model's files. */
  digest: Digest,
  modelDirectory: z.string(),
})
export type Run = z.infer<typeof Run>

const End = z.discriminatedUnion('how', [
  /** The files are here; `stage_only` starts nothing. */
  z.object({ how: z.literal('staged') }),
  /** It was ready before. Expected: a command stopped it. */
  z.object({ how: z.literal('exited'), exit: Exit, isExpected: z.boolean() }),
  z.object({ how: z.literal('failed'), failure: Failure }),
  z.object({ how: z.literal('cancelled'), failure: Failure }),
])
type End = z.infer<typeof End>

export const Stage = z.discriminatedUnion('state', [
  z.object({ state: z.literal('accepted') }),
  z.object({ state: z.literal('staging') }),
  z.object({ state: z.literal('starting'), run: Run }),
  z.object({ state: z.literal('ready'), run: Run }),
  z.object({ state: z.literal('draining'), run: Run }),
  /** `end`: the result once its process is gone; null when it was ready before the stop. */
  z.object({ state: z.literal('stopping'), run: Run, end: End.nullable() }),
  z.object({ state: z.literal('gone'), end: End }),
])
export type Stage = z.infer<typeof Stage>

export type ReplicaEvent =
  | Readonly<{ type: 'stage' }>
  | Readonly<{ type: 'staged' }>
  | Readonly<{ type: 'spawned'; run: Run }>
  | Readonly<{ type: 'ready' }>
  | Readonly<{ type: 'drain' }>
  | Readonly<{ type: 'stop'; because: Failure }>
  /** All of its processes are gone. */
  | Readonly<{ type: 'exited'; exit: Exit }>
  /** The load starts over; it has no process. */
  | Readonly<{ type: 'again' }>

/** Null: the event is not legal in this stage. */
export function step(stage: Stage, event: ReplicaEvent): Stage | null {
  switch (event.type) {
    case 'stage':
      return stage.state === 'accepted' ? { state: 'staging' } : null
    case 'staged':
      return stage.state === 'staging' ? { state: 'gone', end: { how: 'staged' } } : null
    case 'spawned':
      return stage.state === 'staging' ? { state: 'starting', run: event.run } : null
    case 'ready':
      return stage.state === 'starting' ? { ...stage, state: 'ready' } : null
    case 'drain':
      return stage.state === 'ready' ? { ...stage, state: 'draining' } : null
    case 'stop':
      return stopped(stage, event.because)
    case 'exited':
      return exited(stage, event.exit)
    case 'again':
      return stage.state === 'staging' || stage.state === 'starting' ? { state: 'accepted' } : null
    default:
      return unreachable(event)
  }
}

function stopped(stage: Stage, because: Failure): Stage | null {
  const end: End = { how: because.code === 'cancelled' ? 'cancelled' : 'failed', failure: because }
  switch (stage.state) {
    case 'accepted':
    case 'staging':
      return { state: 'gone', end }
    case 'starting':
      return { state: 'stopping', run: stage.run, end }
    case 'ready':
    case 'draining':
      return { state: 'stopping', run: stage.run, end: null }
    case 'stopping':
    case 'gone':
      return null
    default:
      return unreachable(stage)
  }
}

function exited(stage: Stage, exit: Exit): Stage | null {
  switch (stage.state) {
    case 'starting':
      return { state: 'gone', end: { how: 'failed', failure: exitFailure(exit) } }
    case 'ready':
    case 'draining':
      return { state: 'gone', end: { how: 'exited', exit, isExpected: stage.state === 'draining' } }
    case 'stopping':
      return { state: 'gone', end: stage.end ?? { how: 'exited', exit, isExpected: true } }
    case 'accepted':
    case 'staging':
    case 'gone':
      return null
    default:
      return unreachable(stage)
  }
}

export const runOf = (stage: Stage): Run | null => ('run' in stage ? stage.run : null)

const maxOutputCharacters = 6_000

function exitFailure(exit: Exit): Failure {
  const message = `its process ended before it was ready: ${exitReason(exit)}${lastOutput(exit.lines)}`
  return { code: 'unavailable', retry: 'backoff', message }
}

export function silenceFailure(silenceMs: number, poll: ReadinessPoll | null, lines: readonly string[]): Failure {
  const polled = poll === null ? '' : `; ${poll.what} was tried ${poll.times} times; at last ${poll.last}`
  const silence = `its process was not ready and gave no sign of life for ${Math.round(silenceMs / 1000)} s, so it was stopped`
  return { code: 'timeout', retry: 'backoff', message: `${silence}${polled}${lastOutput(lines)}` }
}

/** A connection to a process that did not end: its output is all that tells why. */
export const withOutput = (failure: Failure, lines: readonly string[]): Failure => ({
  ...failure,
  message: `${failure.message}${lastOutput(lines)}`,
})

function exitReason({ code, signal }: Pick<Exit, 'code' | 'signal'>): string {
  if (signal !== null) return `killed by ${signal}${signal === 'SIGKILL' ? ' (out of memory, or by hand)' : ''}`
  return code === null ? 'exit not observed' : `exit code ${code}`
}

function lastOutput(lines: readonly string[]): string {
  if (lines.length === 0) return '; it wrote no output'
  const text = lines.join('\n')
  return `; last output:\n${text.length > maxOutputCharacters ? `…${text.slice(-maxOutputCharacters)}` : text}`
}

type LoadVerdict = Readonly<{ do: 'accept' } | { do: 'join' } | { do: 'refuse'; failure: Failure }>

export type WorkerState = Readonly<{
  others: readonly Pick<ReplicaRecord, 'order' | 'stage'>[]
  isStopping: boolean
  /** Replicas whose records a newer version wrote. */
  newer: readonly ReplicaId[]
}>

export function decideLoad(order: LoadModel, { others, isStopping, newer }: WorkerState): LoadVerdict {
  if (isStopping) return refuse('unavailable', 'backoff', 'this worker is stopping; try again')
  const [unread] = newer
  if (unread !== undefined)
    return refuse(
      'incompatible',
      'backoff',
      `the record of replica ${unread} was written by a newer version of Muster; run that version on this worker again`,
    )
  const same = others.find((other) => other.order.replica_id === order.replica_id)
  if (same !== undefined) {
    if (isSame(same.order, order)) return { do: 'join' }
    return refuse(
      'conflict',
      'never',
      `the replica ${order.replica_id} is ${describe(same.order)} on this node; a replica ID is never used again`,
    )
  }
  const holder = others.find((other) => holdsSlot(other, order))
  if (holder === undefined) return { do: 'accept' }
  const message = `slot ${order.slot} of ${order.model} is taken on this node by the replica ${holder.order.replica_id}: unload that one first`
  return refuse('conflict', 'backoff', message)
}

/** A replica that is draining or stopping keeps the slot too, but its successor is accepted and waits. */
function holdsSlot({ order, stage }: WorkerState['others'][number], wanted: LoadModel): boolean {
  if (wanted.slot === undefined || wanted.stage_only === true || order.stage_only === true) return false
  if (order.model !== wanted.model || order.slot !== wanted.slot) return false
  return stage.state !== 'gone' && stage.state !== 'draining' && stage.state !== 'stopping'
}

const isSame = (a: LoadModel, b: LoadModel): boolean =>
  a.model === b.model &&
  a.revision === b.revision &&
  a.slot === b.slot &&
  a.backend === b.backend &&
  (a.stage_only ?? false) === (b.stage_only ?? false)

const describe = ({ model, revision, slot, backend }: LoadModel): string =>
  `${model} (${revision})${slot === undefined ? '' : `, slot ${slot},`} on ${backend}`

const refuse = (code: Failure['code'], retry: Failure['retry'], message: string): LoadVerdict => ({
  do: 'refuse',
  failure: { code, retry, message },
})

/** Enough for every controller to read how a load ended. */
const keptEnds = 64
const keptModels = 1024

/** Ended replicas that are not among the latest, and not the newest of their model, which records how to load it. */
export function findPrunable(records: readonly ReplicaRecord[]): ReplicaRecord[] {
  const ended = records.filter(({ stage }) => stage.state === 'gone')
  const newest = new Map(records.map((record) => [record.order.model, record]))
  const needed = new Set([...ended.slice(-keptEnds), ...[...newest.values()].slice(-keptModels)])
  return ended.filter((record) => !needed.has(record))
}

export function publicState({ state }: Stage): ReplicaState {
  switch (state) {
    case 'accepted':
    case 'staging':
    case 'starting':
      return 'starting'
    case 'ready':
      return 'ready'
    case 'draining':
    case 'stopping':
      return 'draining'
    case 'gone':
      return 'exited'
  }
}

/** The events that a listener needs who received none so far. */
export function eventsOf(record: ReplicaRecord): OutgoingEvent[] {
  const { stage, opIds } = record
  if (stage.state === 'ready' || stage.state === 'draining')
    return fieldsPerOperation(record).map((about) => ({ type: 'replica.ready', ...about }))
  if (stage.state !== 'gone') return []
  const { end } = stage
  if (end.how === 'exited') return [exitedOf(record, end)]
  // A load without an operation reports the end of the replica itself.
  if (opIds.length === 0)
    return end.how === 'staged' ? [] : [{ type: 'replica.exited', ...eventFields(record), last_lines: [lastLine(end.failure.message)] }]
  return opIds.map((opId) => ({ type: 'op.result', ...loadStatus(opId, record, null) }))
}

export function loadStatus(opId: OperationId, record: ReplicaRecord, progress: ProgressState | null): OpStatusReply {
  const { order, stage } = record
  const digest = digestOf(record) ?? undefined
  const about = { op_id: opId, ...(order.epoch === undefined ? {} : { epoch: order.epoch }), ...(digest === undefined ? {} : { digest }) }
  switch (stage.state) {
    case 'accepted':
      return { ...about, state: 'accepted' }
    case 'staging':
    case 'starting':
      return { ...about, state: 'running', ...progressFields(progress) }
    case 'ready':
    case 'draining':
      return { ...about, state: 'succeeded' }
    case 'stopping':
      return stage.end === null ? { ...about, state: 'succeeded' } : { ...about, state: 'running', ...progressFields(progress) }
    case 'gone':
      return { ...about, ...outcomeOf(stage.end) }
  }
}

function outcomeOf(end: End): Pick<OpStatusReply, 'state' | 'failure'> {
  return end.how === 'failed' || end.how === 'cancelled' ? { state: end.how, failure: end.failure } : { state: 'succeeded' }
}

function progressFields(progress: ProgressState | null): Partial<OpStatusReply> {
  if (progress === null) return {}
  const { phase, current, total, seq } = progress
  return { current, total, progress_seq: seq, ...(phase === null ? {} : { phase }) }
}

function exitedOf(record: ReplicaRecord, { exit, isExpected }: Extract<End, { how: 'exited' }>): OutgoingEvent {
  return {
    type: 'replica.exited',
    ...eventFields(record),
    ...(exit.code === null ? {} : { exit_code: exit.code }),
    ...(exit.signal === null ? {} : { signal: exit.signal }),
    last_lines: exit.lines,
    expected: isExpected,
  }
}

const eventFields = (record: ReplicaRecord, opId: OperationId | undefined = record.opIds[0]) => ({
  replica_id: record.order.replica_id,
  model: record.order.model,
  revision: record.order.revision,
  backend_digest: digestOf(record),
  ...(opId === undefined ? {} : { op_id: opId }),
})

/** The digest in the inventory, so that a controller can compare the two. */
const digestOf = ({ listed, order, digest }: ReplicaRecord): Digest | null => listed ?? order.digest ?? digest

const fieldsPerOperation = (record: ReplicaRecord): ReturnType<typeof eventFields>[] =>
  record.opIds.length === 0 ? [eventFields(record)] : record.opIds.map((opId) => eventFields(record, opId))

const lastLine = (text: string): string => text.slice(0, 4096)

/** Log fields. */
export function replicaFields({ order, stage }: ReplicaRecord): Record<string, unknown> {
  const about: { replica_id: string; model: string; backend: BackendName; slot: number | undefined } = {
    replica_id: order.replica_id,
    model: order.model,
    backend: order.backend,
    slot: order.slot,
  }
  if (stage.state !== 'gone') return { ...about, state: stage.state }
  const { end } = stage
  return {
    ...about,
    state: end.how,
    ...(end.how === 'exited' ? { expected: end.isExpected, reason: exitReason(end.exit) } : {}),
    ...('failure' in end ? end.failure : {}),
  }
}
