// What workers say of their replicas: by events as things happen, and by the list in every heartbeat, which makes up for
// events that were lost. Every controller hears both; the first to write it wins (settle.ts).
import { createFailureStreak, createLoop, type Clock, type Log } from '@muster/host'
import type { Heartbeat, NodeId, ReplicaId } from '@muster/protocol'
import type { ReplicaEvent, ResultEvent } from '../work/inbound.ts'
import { compareBeats, settleEvent, settleFinding, type Beat, type SettleDeps } from './settle.ts'
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
