// How the fleet stays known: heartbeats are gathered and written in batches, silence is judged by
// whoever listened all the while, and nodes that owe a proof are asked for it.
// Every controller hears every heartbeat (a queue group would lose those handed to a controller
// that hangs); the database keeps the first to write it, so N controllers cost N statements, not N rows.
import type { Bus } from '@muster/bus'
import { createFailureStreak, createLoop, type Clock, type FailureStreak, type Log, type Loop } from '@muster/host'
import type { Heartbeat, NodeId } from '@muster/protocol'
import type { Beat, PulseStore, SilenceLimits } from '../store/pulses.ts'
import type { EventOf } from '../work/inbound.ts'
import { attend, inattentive, mayJudge, type Attention } from './attention.pure.ts'

/** How long a heartbeat waits for others to be written with. */
const flushEveryMs = 1_000
/** The first heartbeat of a process makes its node healthy: that does not wait for the batch. */
const flushFirstAfterMs = 50
/** Ids come from the bus, so anybody on it could invent them; what is remembered is bounded. */
const maxRemembered = 100_000
const pingTimeoutMs = 2_000
const limits = { maxGapMs: 5_000, maxClockJumpMs: 2_000 }

export interface PulseLoopDeps {
  readonly bus: Bus
  readonly pulses: PulseStore
  readonly clock: Clock
  readonly log: Log
  readonly silence: Omit<SilenceLimits, 'maxClockJumpMs'>
  /** Asks nodes that have to answer a command before they count as healthy. */
  readonly probeUnproven: (signal: AbortSignal) => Promise<void>
  /** Each heartbeat, as it is heard. */
  readonly onBeat: (beat: Reported) => void
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
  /** By node and process: what a wrong process says in a node's name must not push out what the right one said. */
  readonly #waiting = new Map<string, Waiting>()
  /** Which process of a node was heard last. */
  readonly #heard = new Map<NodeId, string>()
  /** Said by workers that leave; kept until the database has them. */
  readonly #goodbyes = new Map<NodeId, { incarnation: string; seq: number }>()
  readonly #loop: Loop
  readonly #trouble: FailureStreak
  #attention: Attention
  #goodbyeFlush: Promise<void> | null = null

  constructor(deps: PulseLoopDeps) {
    this.#deps = deps
    this.#loop = createLoop({ what: 'cannot watch nodes; retrying', breathMs: flushFirstAfterMs, ...deps })
    this.#trouble = createFailureStreak({ what: 'heartbeats can not be recorded, and are kept', ...deps })
    this.#attention = inattentive(deps.clock.monotonic())
  }

  get attention(): Attention {
    return this.#attention
  }

  receive(beat: Heartbeat): void {
    this.#note('bus', beat)
  }

  noteHttpBeat(beat: Reported): void {
    this.#note('http', beat)
  }

  /** A node that leaves is shown as gone at once: its goodbye does not wait for the next tick. */
  receiveLeaving(goodbye: EventOf<'leaving'>, node: NodeId): void {
    if (this.#goodbyes.size < maxRemembered) this.#goodbyes.set(node, goodbye)
    this.#goodbyeFlush ??= this.#flushGoodbyes().finally(() => (this.#goodbyeFlush = null))
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#loop.run(async (until) => {
      await this.#tick(until)
      return flushEveryMs
    }, signal)
    await this.#goodbyeFlush
  }

  /** Again for goodbyes that arrive meanwhile. Never rejects: the next tick tries again. */
  async #flushGoodbyes(): Promise<void> {
    try {
      while (this.#goodbyes.size > 0) await this.#flush()
    } catch {
      // The tick reports a database that does not answer.
    }
  }

  #note(via: Beat['via'], beat: Reported): void {
    const resources = beat.resources === null ? null : JSON.stringify(beat.resources)
    if (this.#waiting.size >= maxRemembered) this.#waiting.clear()
    this.#waiting.set(keyOf(beat), { via, arrivedAt: this.#deps.clock.monotonic(), heartbeat: { ...beat, resources } })
    if (this.#heard.get(beat.node_id) !== beat.incarnation) this.#loop.wake()
    this.#deps.onBeat(beat)
  }

  async #flush(): Promise<void> {
    await this.#flushBeats()
    // After the heartbeats, or one that still waits would bring the node back.
    for (const [node, goodbye] of this.#goodbyes) {
      await this.#deps.pulses.recordLeaving(node, goodbye)
      if (this.#goodbyes.get(node) === goodbye) this.#goodbyes.delete(node)
    }
  }

  async #flushBeats(): Promise<void> {
    if (this.#waiting.size === 0) return
    const batch = [...this.#waiting.values()]
    const now = this.#deps.clock.monotonic()
    await this.#deps.pulses.recordBeats(batch.map((beat) => ({ ...beat, ageMs: now - beat.arrivedAt })))
    // Only what was written is forgotten: what came meanwhile, or could not be written, waits on.
    for (const beat of batch) {
      const { node_id, incarnation } = beat.heartbeat
      if (this.#waiting.get(keyOf(beat.heartbeat)) === beat) this.#waiting.delete(keyOf(beat.heartbeat))
      if (this.#heard.size >= maxRemembered) this.#heard.clear()
      this.#heard.set(node_id, incarnation)
    }
  }

  /**
   * In this order: the bus answers, so everything that nodes said before has arrived; it is written; the clocks are
   * compared; and only then, if nothing was amiss all the while, is silence judged.
   */
  async #tick(signal: AbortSignal): Promise<void> {
    const { bus, pulses, clock, silence } = this.#deps
    const busAnswered = await bus.ping(pingTimeoutMs).then(
      () => true,
      () => false,
    )
    const reported = [...this.#waiting.values()].map((beat) => beat.heartbeat.node_id)
    let databaseNowMs: number | null = null
    try {
      await this.#flush()
      databaseNowMs = await pulses.databaseNow()
      this.#attention = attend(this.#attention, { at: clock.monotonic(), busAnswered, databaseNowMs }, limits)
      const { nodeTimeoutMs } = silence
      if (mayJudge(this.#attention, { now: clock.monotonic(), nodeTimeoutMs })) await this.#judge(databaseNowMs)
      await this.#deps.probeUnproven(signal)
      this.#trouble.recovered()
    } catch (error) {
      this.#trouble.failed({ error, waiting: reported.length })
      this.#attention = attend(this.#attention, { at: clock.monotonic(), busAnswered, databaseNowMs: null }, limits)
    }
    this.#deps.onTick({ attention: this.#attention, reported })
  }

  async #judge(databaseNowMs: number): Promise<void> {
    const judged = await this.#deps.pulses.sweep({ ...this.#deps.silence, maxClockJumpMs: limits.maxClockJumpMs }, databaseNowMs)
    const silent = judged.filter((node) => node.liveness === 'silent').map((node) => node.id)
    if (silent.length > 0) this.#deps.log.warn('nodes fell silent', { count: silent.length, nodes: silent.slice(0, 20) })
  }
}

const keyOf = (beat: { node_id: string; incarnation: string }): string => `${beat.node_id} ${beat.incarnation}`
