// How the fleet stays known: heartbeats are gathered and written in batches, silence is judged by
// whoever listened all the while, and nodes that owe a proof are asked for it.
// Every controller hears every heartbeat (a queue group would lose those handed to a controller
// that hangs); the database keeps the first to write it, so N controllers cost N statements, not N rows.
import type { Bus, Subscription } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import { heartbeat, nodeEvents, type Heartbeat, type NodeId } from '@muster/protocol'
import type { Beat, PulseStore, SilenceLimits } from '../store/pulses.ts'
import { attend, inattentive, mayJudge, type Attention } from './attention.ts'

/** How long a heartbeat waits for others to be written with. */
const flushEveryMs = 1_000
/** The first heartbeat of a process makes its node healthy: that does not wait for the batch. */
const flushFirstAfterMs = 50
/** Ids come from the bus, so anybody on it could invent them; what is remembered is bounded. */
const maxHeard = 100_000
const pingTimeoutMs = 2_000
const limits = { maxGapMs: 5_000, maxClockJumpMs: 2_000 }

export interface PulseLoopDeps {
  readonly bus: Bus
  readonly pulses: PulseStore
  readonly clock: Clock
  readonly log: Log
  readonly silence: SilenceLimits
  /** Asks nodes that have to answer a command before they count as healthy. */
  readonly probeUnproven: (signal: AbortSignal) => Promise<void>
  readonly onTick?: (report: { attention: Attention; beats: number }) => void
}
export type PulseLoop = ReturnType<typeof createPulseLoop>

interface Waiting {
  readonly via: Beat['via']
  readonly arrivedAt: number
  readonly heartbeat: Beat['heartbeat']
}

export function createPulseLoop(deps: PulseLoopDeps) {
  const { bus, pulses, clock, log } = deps
  const waiting = new Map<NodeId, Waiting>()
  const heard = new Map<NodeId, string>()
  let attention = inattentive(clock.monotonic())
  let hurry: (() => void) | null = null

  function note(via: Beat['via'], beat: Omit<Beat['heartbeat'], 'resources'> & { resources: Heartbeat['resources'] | null }): void {
    const resources = beat.resources === null ? null : JSON.stringify(beat.resources)
    waiting.set(beat.node_id, { via, arrivedAt: clock.monotonic(), heartbeat: { ...beat, resources } })
    if (heard.get(beat.node_id) !== beat.incarnation) hurry?.()
  }

  async function flush(): Promise<void> {
    if (waiting.size === 0) return
    const batch = [...waiting.values()]
    const now = clock.monotonic()
    await pulses.recordBeats(batch.map((beat) => ({ ...beat, ageMs: now - beat.arrivedAt })))
    // Only what was written is forgotten: what came meanwhile, or could not be written, waits on.
    for (const beat of batch) {
      if (waiting.get(beat.heartbeat.node_id) === beat) waiting.delete(beat.heartbeat.node_id)
      heard.set(beat.heartbeat.node_id, beat.heartbeat.incarnation)
      if (heard.size > maxHeard) heard.clear()
    }
  }

  async function tick(signal: AbortSignal): Promise<void> {
    const busAnswered = bus.ping(pingTimeoutMs).then(
      () => true,
      () => false,
    )
    const beats = waiting.size
    let databaseNowMs: number | null = null
    try {
      await flush()
      const judge = mayJudge(attention, { now: clock.monotonic(), nodeTimeoutMs: deps.silence.nodeTimeoutMs }) && (await busAnswered)
      const swept = await pulses.sweep(deps.silence, judge)
      databaseNowMs = swept.nowMs
      if (swept.judged > 0) log.warn('nodes fell silent', { count: swept.judged })
      await deps.probeUnproven(signal)
    } catch (error) {
      log.warn('heartbeats could not be recorded', { error, waiting: waiting.size })
    }
    attention = attend(attention, { at: clock.monotonic(), busAnswered: await busAnswered, databaseNowMs }, limits)
    deps.onTick?.({ attention, beats })
  }

  /** Waits for the next batch, or shorter when a new process reports. */
  async function pause(signal: AbortSignal): Promise<void> {
    const hurried = new AbortController()
    hurry = () => hurried.abort()
    await clock.sleep(flushEveryMs, AbortSignal.any([signal, hurried.signal])).catch(() => undefined)
    hurry = null
    if (hurried.signal.aborted && !signal.aborted) await clock.sleep(flushFirstAfterMs, signal).catch(() => undefined)
  }

  function subscribe(): Subscription[] {
    const everyNode = { node: '*' } as const
    const beats = bus.subscribe(heartbeat, everyNode, (message, { node }) => {
      if (message.node_id === node) note('bus', message)
    })
    const events = bus.subscribe(nodeEvents, everyNode, async (event, { node }) => {
      if (event.type !== 'leaving') return
      // Written before the goodbye, or a heartbeat that still waits would bring the node back.
      await flush()
      await pulses.recordLeaving(node, event.incarnation)
    })
    return [beats, events]
  }

  return {
    noteHttpBeat: (beat: Parameters<typeof note>[1]): void => note('http', beat),
    attention: (): Attention => attention,

    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      const subscriptions = subscribe()
      while (!signal.aborted) {
        await tick(signal)
        await pause(signal)
      }
      await Promise.all(subscriptions.map((subscription) => subscription.stop()))
    },
  }
}
