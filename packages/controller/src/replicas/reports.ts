// Records reports of workers about replicas and loads: events, and the list in every heartbeat, which covers lost events. Every
// controller receives both; the first to write wins. Reports of a replaced process do not count. Also tends replicas without
// a load, and unloads draining ones.
import type { Bus } from '@muster/bus'
import { type Clock, createFailureStreak, createLoop, inLanes, type Log } from '@muster/host'
import { type Heartbeat, modelUnload, type NodeId, type OpStatusReply, type ReplicaId, steadyMs } from '@muster/protocol'
import type { Advance } from '../loads/load-work.ts'
import { eventOfEnd, failureOfExit, type StepDetail } from '../loads/loads.pure.ts'
import type { LoadStore } from '../store/loads.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { Exit, ReplicaRecord, ReplicaStore, Stamp } from '../store/replicas.ts'
import type { ReplicaEvent, ResultEvent, WorkKey } from '../work/exchange.ts'
import { compareReplicas, fateOf, type Finding, returnOf } from './replicas.pure.ts'

export interface ReplicaReportsDeps extends SettleDeps {
  readonly unload: Unload
  readonly clock: Clock
  readonly log: Log
}

/** IDs come from the bus and cannot be trusted, so memory for them is bounded. */
const maxPending = 20_000
const compareEveryMs = 500
/** A process needs a moment to end. */
const unloadOrphanEveryMs = 5_000

export function createReplicaReports(deps: ReplicaReportsDeps) {
  const { clock, log } = deps
  const loop = createLoop({ what: 'cannot record reports about replicas; retrying', clock, log })
  const pending = createPending({ clock, onEvent: loop.wake })
  const unloadOrphan = createUnloadOrphan(deps)
  const streak = createFailureStreak({ what: 'cannot record a report about a replica; the worker repeats the report', clock, log })

  const settle = async (signal: AbortSignal): Promise<void> => {
    const { events, beats } = pending.take()
    let hasFailed = false
    /** A report that cannot be recorded does not block the others. */
    const record = async (about: object, work: () => Promise<void>): Promise<void> => {
      if (signal.aborted) return
      try {
        await work()
      } catch (error) {
        hasFailed = true
        streak.failed({ ...about, error })
      }
    }
    for (const { node, event } of events) await record({ node, event: event.type }, () => settleEvent(node, event, deps))
    await record({ nodes: beats.size }, async () => {
      for (const { node, finding, stamp } of await compareBeats(beats, clock.monotonic(), deps)) {
        if (finding.is === 'orphan') unloadOrphan({ id: finding.id, nodeId: node }, signal)
        else await record({ node, replica: finding.id }, () => settleFinding(finding, stamp, deps))
      }
    })
    if (!hasFailed) streak.recovered()
  }
  return {
    /** Requests in flight, as the worker reported last. */
    inFlight: pending.inFlight,
    /** The listener is called with each reported number. */
    onInFlight: pending.onInFlight,
    receiveHeartbeat: pending.beat,
    receiveEvent: pending.event,
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await loop.run(async (until) => {
        await settle(until)
        return compareEveryMs
      }, signal)
    },
  }
}

/** Reports that are not recorded yet: the last heartbeat of each node, and all events. */
function createPending({ clock, onEvent }: { clock: Clock; onEvent: () => void }) {
  const inFlight = new Map<ReplicaId, number>()
  const listeners = new Set<(id: ReplicaId, count: number) => void>()
  let beats = new Map<NodeId, Beat>()
  let events: Readonly<{ node: NodeId; event: ReplicaEvent | ResultEvent }>[] = []
  return {
    inFlight: (id: ReplicaId): number => inFlight.get(id) ?? 0,
    onInFlight: (listener: (id: ReplicaId, count: number) => void): void => void listeners.add(listener),
    beat(beat: Heartbeat, node: NodeId): void {
      if (inFlight.size > maxPending) inFlight.clear()
      for (const { replica_id: id, in_flight: count } of beat.replicas ?? []) {
        inFlight.set(id, count)
        for (const listener of listeners) listener(id, count)
      }
      const before = beats.get(node)
      if (before?.beat.incarnation === beat.incarnation && before.beat.seq > beat.seq) return
      if (beats.size < maxPending || before !== undefined) beats.set(node, { beat, arrivedAt: clock.monotonic() })
    },
    event(event: ReplicaEvent | ResultEvent, node: NodeId): void {
      // An event beyond the limit is lost here; the next heartbeat covers it.
      if (events.length < maxPending) events.push({ node, event })
      onEvent()
    },
    take() {
      const taken = { beats, events }
      beats = new Map()
      events = []
      return taken
    },
  }
}

/** W16: only this process, by its ID. */
function createUnloadOrphan({ unload, clock, log }: ReplicaReportsDeps) {
  const unloaded = new Map<ReplicaId, number>()
  return (replica: { id: ReplicaId; nodeId: NodeId }, signal: AbortSignal): void => {
    const now = clock.monotonic()
    for (const [id, at] of unloaded) if (now - at > unloadOrphanEveryMs) unloaded.delete(id)
    if (unloaded.has(replica.id)) return
    unloaded.set(replica.id, now)
    log.warn('worker runs an unknown replica; unloading it', { node: replica.nodeId, replica: replica.id })
    void unload(replica, signal)
  }
}

interface SettleDeps {
  readonly loads: LoadStore
  readonly replicas: ReplicaStore
  readonly nodes: Pick<NodeStore, 'incarnationsOf'>
  readonly advance: Advance
  readonly settleProgress: (keys: readonly WorkKey[]) => Promise<void>
}
type Beat = Readonly<{ beat: Heartbeat; arrivedAt: number }>

async function compareBeats(
  beats: ReadonlyMap<NodeId, Beat>,
  now: number,
  { replicas, nodes }: SettleDeps,
): Promise<{ node: NodeId; finding: Finding; stamp: Stamp }[]> {
  const ids = [...beats.keys()]
  const known = Map.groupBy(await replicas.liveOn(ids), ({ nodeId }) => nodeId)
  const concerned = ids.filter((id) => known.has(id) || (beats.get(id)?.beat.replicas?.length ?? 0) > 0)
  const incarnations = await nodes.incarnationsOf(concerned)
  return concerned.flatMap((node) => {
    const beat = beats.get(node)
    if (beat === undefined || incarnations.get(node) !== beat.beat.incarnation) return []
    const { incarnation, seq, replicas: listed = [] } = beat.beat
    const list = { incarnation, seq, ageMs: now - beat.arrivedAt, replicas: listed }
    return compareReplicas(known.get(node) ?? [], list).map((finding) => ({ node, finding, stamp: { incarnation, seq } }))
  })
}

async function settleFinding(finding: Exclude<Finding, { is: 'orphan' }>, stamp: Stamp, deps: SettleDeps): Promise<void> {
  if (finding.is === 'ready') await recordReady(finding.id, { stamp }, deps)
  else await recordExit(finding.id, { exit: { reason: 'the worker no longer lists the replica' }, stamp }, deps)
}

async function settleEvent(node: NodeId, event: ReplicaEvent | ResultEvent, deps: SettleDeps): Promise<void> {
  const incarnations = await deps.nodes.incarnationsOf([node])
  if (incarnations.get(node) !== event.incarnation) return
  const stamp = { incarnation: event.incarnation, seq: event.seq }
  switch (event.type) {
    case 'replica.ready':
      if (await ownsReplica(node, event.replica_id, deps))
        await recordReady(event.replica_id, { stamp, backendDigest: event.backend_digest }, deps)
      return
    case 'replica.exited': {
      const { exit_code, signal, last_lines, expected } = event
      const exit = {
        ...(exit_code === undefined ? {} : { exit_code }),
        ...(signal === undefined ? {} : { signal }),
        ...(last_lines === undefined ? {} : { last_lines }),
        ...(expected === undefined ? {} : { expected }),
      }
      if (await ownsReplica(node, event.replica_id, deps)) await recordExit(event.replica_id, { stamp, exit }, deps)
      return
    }
    case 'op.result':
      await recordEnd(node, event, { stamp, backendDigest: event.digest ?? null }, deps)
  }
}

/** A node may report only its own replicas. */
async function ownsReplica(node: NodeId, id: ReplicaId, { replicas }: SettleDeps): Promise<boolean> {
  return (await replicas.find(id))?.nodeId === node
}

async function recordReady(id: ReplicaId, detail: StepDetail, deps: SettleDeps): Promise<void> {
  const moved = await deps.advance({ read: () => deps.loads.findByReplica(id), eventOf: () => ({ type: 'ready' }), detail })
  if (moved !== null) return
  await deps.replicas.change({ id, do: 'ready', backendDigest: detail.backendDigest ?? null, stamp: detail.stamp ?? null })
}

async function recordExit(id: ReplicaId, { exit, stamp }: { exit: Exit; stamp: Stamp }, deps: SettleDeps): Promise<void> {
  const isProven = await deps.replicas.isProven(id, steadyMs)
  const event = { type: 'exited', failure: failureOfExit(exit), wasCommanded: exit.expected === true, isProven } as const
  const moved = await deps.advance({ read: () => deps.loads.findByReplica(id), eventOf: () => event, detail: { exit, stamp } })
  if (moved !== null) return
  await deps.replicas.change({ id, do: 'exit', exit, stamp })
}

async function recordEnd(
  node: NodeId,
  reply: OpStatusReply,
  detail: StepDetail,
  { loads, replicas, advance, settleProgress }: SettleDeps,
): Promise<void> {
  const end = eventOfEnd(reply)
  if (end === null) return
  const event = end.type === 'failed' ? { ...end, isProven: await isRevisionProven(node, reply.op_id, { loads, replicas }) } : end
  await settleProgress([{ nodeId: node, opId: reply.op_id }])
  await advance({ read: () => loads.findByOp(node, reply.op_id), eventOf: (load) => (load.state === 'starting' ? event : null), detail })
}

async function isRevisionProven(
  node: NodeId,
  opId: OpStatusReply['op_id'],
  { loads, replicas }: Pick<SettleDeps, 'loads' | 'replicas'>,
): Promise<boolean> {
  const [found] = (await loads.findByOp(node, opId)).rows
  const replicaId = found?.load.state === 'starting' ? found.load.replicaId : null
  return replicaId !== null && (await replicas.isProven(replicaId, steadyMs))
}

// Replicas without a load, and draining ones. Each is unloaded by its own ID, repeatedly until it has exited.

interface TendDeps {
  readonly bus: Bus
  readonly loads: LoadStore
  readonly replicas: ReplicaStore
  readonly advance: Advance
  readonly log: Log
}

const unloadEveryMs = 5_000
/**
 * A disconnected controller delays an unload by this at most: the worker then refuses its requests, and it tries another replica.
 */
const patienceMs = 10_000
const answerWithinMs = 2_000
const batch = 64
const unloadAtOnce = 16

type Unload = (replica: { id: ReplicaId; nodeId: NodeId }, signal: AbortSignal) => Promise<void>

/** Never rejects: the request is repeated until the process has exited. */
export function createUnload({ bus, log }: Pick<TendDeps, 'bus' | 'log'>): Unload {
  return async ({ id, nodeId: node }, signal) => {
    try {
      const reply = await bus.request(modelUnload, { node }, { replica_id: id }, { timeoutMs: answerWithinMs, signal })
      if ('accepted' in reply && !reply.accepted)
        log.warn('worker refused to unload a replica', { node, replica: id, error: reply.failure.message })
    } catch (error) {
      if (!signal.aborted) log.debug('unload request failed', { node, replica: id, error })
    }
  }
}

export function createTendReplicas(deps: TendDeps & { readonly unload: Unload }) {
  const { loads, replicas, unload } = deps
  /** True: some wait until no controller routes to them, and no event wakes the loop for that. */
  return async (signal: AbortSignal): Promise<boolean> => {
    const surplus = await replicas.findSurplus(batch)
    if (surplus.length > 0) {
      const { rows } = await loads.listOfModels([...new Set(surplus.map(({ model }) => model))])
      const byModel = Map.groupBy(rows, ({ load }) => load.model as string)
      for (const replica of surplus)
        await settleSurplus(
          replica,
          (byModel.get(replica.model) ?? []).map(({ load }) => load),
          deps,
        )
    }
    const { due, areSomeWaiting } = await replicas.takeDrains({ everyMs: unloadEveryMs, patienceMs, limit: batch })
    await inLanes(due, { atOnce: unloadAtOnce }, (drain) => unload(drain, signal))
    return areSomeWaiting
  }
}

async function settleSurplus(
  replica: ReplicaRecord,
  ofModel: Parameters<typeof fateOf>[1],
  { loads, replicas, advance, log }: TendDeps,
): Promise<void> {
  const fate = fateOf(replica, ofModel)
  const { id, nodeId: node, model, ordinal } = replica
  if (fate.do === 'wait') return
  if (fate.do === 'drain') {
    if (await replicas.change({ id, do: 'drain_surplus', ordinal })) log.info('replica is no longer needed', { model, replica: id, node })
    return
  }
  const event = returnOf(replica)
  // A load that has another replica by now keeps that one.
  await advance({ read: () => loads.find(fate.to), eventOf: (load) => (load.revision === replica.revision ? event : null) })
}
