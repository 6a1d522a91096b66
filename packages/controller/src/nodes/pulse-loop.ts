// How the fleet stays known: heartbeats are gathered and written in batches, silence is judged by
// whoever listened all the while, and nodes that owe a proof are asked for it.
// Every controller hears every heartbeat (a queue group would lose those handed to a controller
// that hangs); the database keeps the first to write it, so N controllers cost N statements, not N rows.
import type { Bus, Subscription } from '@muster/bus'
import { createTrouble, createWakeable, type Clock, type Log, type Trouble } from '@muster/host'
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
  readonly probeUnproven: () => Promise<void>
  readonly onTick: (report: { attention: Attention; reported: readonly NodeId[] }) => void
}

type Reported = Omit<Beat['heartbeat'], 'resources'> & { readonly resources: Heartbeat['resources'] | null }
interface Waiting {
  readonly via: Beat['via']
  readonly arrivedAt: number
  readonly heartbeat: Beat['heartbeat']
}

export class PulseLoop {
  readonly #deps: PulseLoopDeps
  readonly #waiting = new Map<NodeId, Waiting>()
  /** Which process of a node was heard last. */
  readonly #heard = new Map<NodeId, string>()
  readonly #hurry: ReturnType<typeof createWakeable>
  readonly #trouble: Trouble
  #attention: Attention

  constructor(deps: PulseLoopDeps) {
    this.#deps = deps
    this.#hurry = createWakeable(deps.clock)
    this.#trouble = createTrouble({ what: 'heartbeats can not be recorded, and are kept', ...deps })
    this.#attention = inattentive(deps.clock.monotonic())
  }

  get attention(): Attention {
    return this.#attention
  }

  noteHttpBeat(beat: Reported): void {
    this.#note('http', beat)
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const subscriptions = this.#subscribe()
    while (!signal.aborted) {
      await this.#tick()
      const isHurried = await this.#hurry.pause(flushEveryMs, signal).catch(() => false)
      if (isHurried) await this.#deps.clock.sleep(flushFirstAfterMs, signal).catch(() => undefined)
    }
    await Promise.all(subscriptions.map((subscription) => subscription.stop()))
  }

  #subscribe(): Subscription[] {
    const { bus, pulses } = this.#deps
    const everyNode = { node: '*' } as const
    const beats = bus.subscribe(heartbeat, everyNode, (message, { node }) => {
      if (message.node_id === node) this.#note('bus', message)
    })
    const events = bus.subscribe(nodeEvents, everyNode, async (event, { node }) => {
      if (event.type !== 'leaving') return
      // Written before the goodbye, or a heartbeat that still waits would bring the node back.
      await this.#flush()
      await pulses.recordLeaving(node, event)
    })
    return [beats, events]
  }

  #note(via: Beat['via'], beat: Reported): void {
    const resources = beat.resources === null ? null : JSON.stringify(beat.resources)
    this.#waiting.set(beat.node_id, { via, arrivedAt: this.#deps.clock.monotonic(), heartbeat: { ...beat, resources } })
    if (this.#heard.get(beat.node_id) !== beat.incarnation) this.#hurry.wake()
  }

  async #flush(): Promise<void> {
    if (this.#waiting.size === 0) return
    const batch = [...this.#waiting.values()]
    const now = this.#deps.clock.monotonic()
    await this.#deps.pulses.recordBeats(batch.map((beat) => ({ ...beat, ageMs: now - beat.arrivedAt })))
    // Only what was written is forgotten: what came meanwhile, or could not be written, waits on.
    for (const beat of batch) {
      const { node_id, incarnation } = beat.heartbeat
      if (this.#waiting.get(node_id) === beat) this.#waiting.delete(node_id)
      if (this.#heard.size >= maxHeard) this.#heard.clear()
      this.#heard.set(node_id, incarnation)
    }
  }

  async #tick(): Promise<void> {
    const { bus, pulses, clock, log, silence } = this.#deps
    const pinging = bus.ping(pingTimeoutMs).then(
      () => true,
      () => false,
    )
    const reported = [...this.#waiting.keys()]
    let databaseNowMs: number | null = null
    try {
      await this.#flush()
      const isFit = mayJudge(this.#attention, { now: clock.monotonic(), nodeTimeoutMs: silence.nodeTimeoutMs }) && (await pinging)
      const swept = await pulses.sweep(silence, isFit)
      databaseNowMs = swept.nowMs
      if (swept.silent.length > 0) log.warn('nodes fell silent', { count: swept.silent.length, nodes: swept.silent.slice(0, 20) })
      await this.#deps.probeUnproven()
      this.#trouble.over()
    } catch (error) {
      this.#trouble.failed({ error, waiting: reported.length })
    }
    this.#attention = attend(this.#attention, { at: clock.monotonic(), busAnswered: await pinging, databaseNowMs }, limits)
    this.#deps.onTick({ attention: this.#attention, reported })
  }
}
