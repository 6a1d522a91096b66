// The stages of one replica, from accepted to gone, and the one function that moves it; the decision on a command to load a model.
// Pure.
//
//   accepted ──stage──▶ staging ──spawned──▶ starting ──ready──▶ ready ──drain──▶ draining
//      ▲                   │  └─staged (`stage_only`)▶ gone                        │
//      └───── again ───────┴──────────────── starting            stop, drained ────┴──▶ stopping ──exited──▶ gone
//
// `spawned`, `ready` and `exited` come from the code that watches the process; `drain` and `stop` from commands; `again` from a
// worker that stops, or that starts and finds a load without its process.
import { z } from 'zod'
import { Digest, Failure, type LoadModel, type ReplicaId, unreachable } from '@muster/protocol'
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

export const End = z.discriminatedUnion('how', [
  /** The files are here; `stage_only` starts nothing. */
  z.object({ how: z.literal('staged') }),
  /** It was ready before. Expected: a command stopped it. */
  z.object({ how: z.literal('exited'), exit: Exit, isExpected: z.boolean() }),
  z.object({ how: z.literal('failed'), failure: Failure }),
  z.object({ how: z.literal('cancelled'), failure: Failure }),
])
export type End = z.infer<typeof End>

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

export function silenceFailure(silenceMs: number, lines: readonly string[]): Failure {
  const message = `its process was not ready and gave no sign of life for ${Math.round(silenceMs / 1000)} s, so it was stopped${lastOutput(lines)}`
  return { code: 'timeout', retry: 'backoff', message }
}

export function exitReason({ code, signal }: Pick<Exit, 'code' | 'signal'>): string {
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
