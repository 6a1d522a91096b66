// What workers say of their replicas: by events as things happen, and by the list in every heartbeat, which makes up for
// events that were lost. Every controller hears both; the first to write it wins (settle.ts).
import { type Clock, createFailureStreak, createLoop, type Log } from '@muster/host'
import type { Heartbeat, NodeId, OpStatusReply, ReplicaId } from '@muster/protocol'
import type { Advance } from '../loads/advance.ts'
import { eventOfEnd, failureOfExit, type StepDetail } from '../loads/loads.pure.ts'
import type { LoadStore } from '../store/loads.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { Exit, ReplicaStore, Stamp } from '../store/replicas.ts'
import type { WorkKey } from '../work/exchange.ts'
import type { ReplicaEvent, ResultEvent } from '../work/inbound.ts'
import { compareReplicas, type Finding } from './compare.pure.ts'
import type { Unload } from './tend.ts'

export interface ReplicaListenerDeps extends SettleDeps {
  readonly unload: Unload
  readonly clock: Clock
  readonly log: Log
}

/** Ids come from the bus, so anybody on it could invent them; what is remembered is bounded. */
const maxRemembered = 20_000
const compareEveryMs = 500
/** One that is told to end needs a moment for it. */
const tellOrphanEveryMs = 5_000

export function createReplicaListener(deps: ReplicaListenerDeps) {
  const { clock, log } = deps
  const loop = createLoop({ what: 'cannot record reports about replicas; retrying', clock, log })
  const heard = createHeard({ clock, onEvent: loop.wake })
  const endOrphan = createEndOrphan(deps)
  const trouble = createFailureStreak({ what: 'what workers say of replicas can not be recorded; they say it again', clock, log })

  const settle = async (signal: AbortSignal): Promise<void> => {
    const { events, beats } = heard.take()
    let hasFailed = false
    /** What can not be recorded keeps nothing else from being so. */
    const record = async (about: object, work: () => Promise<void>): Promise<void> => {
      if (signal.aborted) return
      try {
        await work()
      } catch (error) {
        hasFailed = true
        trouble.failed({ ...about, error })
      }
    }
    for (const { node, event } of events) await record({ node, event: event.type }, () => settleEvent(node, event, deps))
    await record({ nodes: beats.size }, async () => {
      for (const { node, finding, stamp } of await compareBeats(beats, clock.monotonic(), deps)) {
        if (finding.is === 'orphan') endOrphan({ id: finding.id, nodeId: node }, signal)
        else await record({ node, replica: finding.id }, () => settleFinding(finding, stamp, deps))
      }
    })
    if (!hasFailed) trouble.recovered()
  }
  return {
    /** As its worker said it last. */
    inFlight: heard.inFlight,
    /** Called with each number as it is heard. */
    onInFlight: heard.onInFlight,
    receiveHeartbeat: heard.beat,
    receiveEvent: heard.event,
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await loop.run(async (until) => {
        await settle(until)
        return compareEveryMs
      }, signal)
    },
  }
}

/** What was heard and is not settled yet: of each node its last heartbeat, and all events. */
function createHeard({ clock, onEvent }: { clock: Clock; onEvent: () => void }) {
  const inFlight = new Map<ReplicaId, number>()
  const tellInFlight = new Set<(id: ReplicaId, count: number) => void>()
  let beats = new Map<NodeId, Beat>()
  let events: Readonly<{ node: NodeId; event: ReplicaEvent | ResultEvent }>[] = []
  return {
    inFlight: (id: ReplicaId): number => inFlight.get(id) ?? 0,
    onInFlight: (tell: (id: ReplicaId, count: number) => void): void => void tellInFlight.add(tell),
    beat(beat: Heartbeat, node: NodeId): void {
      if (inFlight.size > maxRemembered) inFlight.clear()
      for (const { replica_id: id, in_flight: count } of beat.replicas ?? []) {
        inFlight.set(id, count)
        for (const tell of tellInFlight) tell(id, count)
      }
      const before = beats.get(node)
      if (before?.beat.incarnation === beat.incarnation && before.beat.seq > beat.seq) return
      if (beats.size < maxRemembered || before !== undefined) beats.set(node, { beat, arrivedAt: clock.monotonic() })
    },
    event(event: ReplicaEvent | ResultEvent, node: NodeId): void {
      // What is too much is lost here, and found in the next heartbeat.
      if (events.length < maxRemembered) events.push({ node, event })
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

/** W16: that very process, by its id. */
function createEndOrphan({ unload, clock, log }: ReplicaListenerDeps) {
  const told = new Map<ReplicaId, number>()
  return (replica: { id: ReplicaId; nodeId: NodeId }, signal: AbortSignal): void => {
    const now = clock.monotonic()
    for (const [id, at] of told) if (now - at > tellOrphanEveryMs) told.delete(id)
    if (told.has(replica.id)) return
    told.set(replica.id, now)
    log.warn('a worker runs a replica that belongs to nobody; it is told to end it', { node: replica.nodeId, replica: replica.id })
    void unload(replica, signal)
  }
}

// Writes down what workers said of their replicas.

interface SettleDeps {
  readonly loads: LoadStore
  readonly replicas: ReplicaStore
  readonly nodes: Pick<NodeStore, 'incarnationsOf'>
  readonly advance: Advance
  readonly settleProgress: (keys: readonly WorkKey[]) => Promise<void>
}
type Beat = Readonly<{ beat: Heartbeat; arrivedAt: number }>

/** Nothing of a process that no longer speaks for its node counts. */
async function compareBeats(
  beats: ReadonlyMap<NodeId, Beat>,
  now: number,
  { replicas, nodes }: SettleDeps,
): Promise<{ node: NodeId; finding: Finding; stamp: Stamp }[]> {
  const ids = [...beats.keys()]
  const known = Map.groupBy(await replicas.liveOn(ids), ({ nodeId }) => nodeId)
  const concerned = ids.filter((id) => known.has(id) || (beats.get(id)?.beat.replicas?.length ?? 0) > 0)
  const speaking = await nodes.incarnationsOf(concerned)
  return concerned.flatMap((node) => {
    const heard = beats.get(node)
    if (heard === undefined || speaking.get(node) !== heard.beat.incarnation) return []
    const { incarnation, seq, replicas: listed = [] } = heard.beat
    const said = { incarnation, seq, ageMs: now - heard.arrivedAt, replicas: listed }
    return compareReplicas(known.get(node) ?? [], said).map((finding) => ({ node, finding, stamp: { incarnation, seq } }))
  })
}

async function settleFinding(finding: Exclude<Finding, { is: 'orphan' }>, stamp: Stamp, deps: SettleDeps): Promise<void> {
  if (finding.is === 'ready') await becameReady(finding.id, { stamp }, deps)
  else await exited(finding.id, { exit: { reason: 'its worker does not list it any more' }, stamp }, deps)
}

async function settleEvent(node: NodeId, event: ReplicaEvent | ResultEvent, deps: SettleDeps): Promise<void> {
  const speaking = await deps.nodes.incarnationsOf([node])
  if (speaking.get(node) !== event.incarnation) return
  const stamp = { incarnation: event.incarnation, seq: event.seq }
  switch (event.type) {
    case 'replica.ready':
      if (await isOf(node, event.replica_id, deps))
        await becameReady(event.replica_id, { stamp, backendDigest: event.backend_digest }, deps)
      return
    case 'replica.exited': {
      const { exit_code, signal, last_lines, expected } = event
      const exit = {
        ...(exit_code === undefined ? {} : { exit_code }),
        ...(signal === undefined ? {} : { signal }),
        ...(last_lines === undefined ? {} : { last_lines }),
        ...(expected === undefined ? {} : { expected }),
      }
      if (await isOf(node, event.replica_id, deps)) await exited(event.replica_id, { stamp, exit }, deps)
      return
    }
    case 'op.result':
      await ended(node, event, { stamp, backendDigest: event.digest ?? null }, deps)
  }
}

/** A node speaks of its own replicas only. */
async function isOf(node: NodeId, id: ReplicaId, { replicas }: SettleDeps): Promise<boolean> {
  return (await replicas.find(id))?.nodeId === node
}

async function becameReady(id: ReplicaId, detail: StepDetail, deps: SettleDeps): Promise<void> {
  const moved = await deps.advance({ read: () => deps.loads.findByReplica(id), eventOf: () => ({ type: 'ready' }), detail })
  if (moved !== null) return
  await deps.replicas.change({ id, do: 'ready', backendDigest: detail.backendDigest ?? null, stamp: detail.stamp ?? null })
}

async function exited(id: ReplicaId, { exit, stamp }: { exit: Exit; stamp: Stamp }, deps: SettleDeps): Promise<void> {
  const event = { type: 'exited', failure: failureOfExit(exit), wasTold: exit.expected === true } as const
  const moved = await deps.advance({ read: () => deps.loads.findByReplica(id), eventOf: () => event, detail: { exit, stamp } })
  if (moved !== null) return
  await deps.replicas.change({ id, do: 'exit', exit, stamp })
}

async function ended(
  node: NodeId,
  reply: OpStatusReply,
  detail: StepDetail,
  { loads, advance, settleProgress }: SettleDeps,
): Promise<void> {
  const event = eventOfEnd(reply)
  if (event === null) return
  await settleProgress([{ nodeId: node, opId: reply.op_id }])
  await advance({ read: () => loads.findByOp(node, reply.op_id), eventOf: (load) => (load.state === 'starting' ? event : null), detail })
}
