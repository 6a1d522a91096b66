// Liveness of nodes: writes heartbeats in batches, marks nodes as silent if this controller has received heartbeats without a
// break, and probes nodes that have not answered a command yet. Every controller receives every heartbeat; the first to write it
// wins, so N controllers cost N statements, not N rows.
import type { Bus } from '@muster/bus'
import { createFailureStreak, createLoop, type Clock, type FailureStreak, type Log, type Loop } from '@muster/host'
import type { Heartbeat, NodeId } from '@muster/protocol'
import type { Beat, PulseStore, SilenceLimits } from '../store/pulses.ts'
import type { EventOf } from '../work/exchange.ts'
import { attend, inattentive, mayJudge, type Attention, type Probe } from './attention.pure.ts'

/** Heartbeats of this period are written in one statement. */
const flushEveryMs = 1_000
/** The first heartbeat of a process makes its node healthy, so it is written sooner. */
const flushFirstAfterMs = 50
/** IDs come from the bus and cannot be trusted, so memory for them is bounded. */
const maxRemembered = 100_000
/** A node has its process, the one before it, and at most a copy or two. */
const maxProcesses = 4
const pingTimeoutMs = 2_000
const limits = { maxGapMs: 5_000, maxClockJumpMs: 2_000 }

export interface PulseLoopDeps {
  readonly bus: Bus
  readonly pulses: PulseStore
  readonly clock: Clock
  readonly log: Log
  readonly silence: Omit<SilenceLimits, 'maxClockJumpMs'>
  /** Probes nodes that have to answer a command before they count as healthy. */
  readonly probeUnproven: (signal: AbortSignal) => Promise<void>
  /** Called with each heartbeat when it arrives. */
  readonly onBeat: (beat: ReportedBeat) => void
  readonly onTick: (report: { attention: Attention; reported: readonly NodeId[] }) => void
}

type ReportedBeat = Omit<Beat['heartbeat'], 'resources'> & { readonly resources: Heartbeat['resources'] | null }
interface PendingBeat {
  readonly via: Beat['via']
  readonly arrivedAt: number
  readonly heartbeat: Beat['heartbeat']
}

export class PulseLoop {
  readonly #deps: PulseLoopDeps
  /** By node, then process: a heartbeat of a wrong process in a node's name must not replace that of the right one. */
  readonly #pending = new Map<NodeId, Map<string, PendingBeat>>()
  /** The last known process of each node. */
  readonly #incarnations = new Map<NodeId, string>()
  /** Goodbye messages of workers, kept until the database has them. */
  readonly #goodbyes = new Map<NodeId, { incarnation: string; seq: number }>()
  readonly #loop: Loop
  readonly #streak: FailureStreak
  #attention: Attention
  /** Heartbeats that this process lost since the last probe. */
  #lostBeats = 0
  #goodbyeFlush: Promise<void> | null = null

  constructor(deps: PulseLoopDeps) {
    this.#deps = deps
    this.#loop = createLoop({ what: 'cannot watch nodes; retrying', breathMs: flushFirstAfterMs, ...deps })
    this.#streak = createFailureStreak({ what: 'cannot record heartbeats; retrying', ...deps })
    this.#attention = inattentive(deps.clock.monotonic())
  }

  get attention(): Attention {
    return this.#attention
  }

  receive(beat: Heartbeat): void {
    this.#note('bus', beat)
  }

  noteHttpBeat(beat: ReportedBeat): void {
    this.#note('http', beat)
  }

  /** The heartbeat may have been of any node, so this controller judges no silence for one node timeout. */
  recordLostBeat(): void {
    this.#lostBeats += 1
  }

  /** A node that leaves is shown as offline at once: its goodbye does not wait for the next tick. */
  receiveLeaving(goodbye: EventOf<'leaving'>, node: NodeId): void {
    if (this.#goodbyes.size < maxRemembered) this.#goodbyes.set(node, goodbye)
    this.#goodbyeFlush ??= this.#flushGoodbyes().finally(() => (this.#goodbyeFlush = null))
  }

  /** Runs until aborted. */
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

  #note(via: Beat['via'], beat: ReportedBeat): void {
    const resources = beat.resources === null ? null : JSON.stringify(beat.resources)
    if (this.#pending.size >= maxRemembered) {
      this.#lostBeats += this.#pending.size
      this.#pending.clear()
    }
    const ofNode = this.#pending.get(beat.node_id) ?? new Map<string, PendingBeat>()
    this.#pending.set(beat.node_id, ofNode)
    // Deleted first, so that the process that reported last is also the last in the map.
    ofNode.delete(beat.incarnation)
    ofNode.set(beat.incarnation, { via, arrivedAt: this.#deps.clock.monotonic(), heartbeat: { ...beat, resources } })
    const [oldest] = ofNode.keys()
    if (ofNode.size > maxProcesses && oldest !== undefined) ofNode.delete(oldest)
    if (this.#incarnations.get(beat.node_id) !== beat.incarnation) this.#loop.wake()
    this.#deps.onBeat(beat)
  }

  async #flush(): Promise<void> {
    await this.#flushBeats()
    // After the heartbeats: a pending one would bring the node back.
    for (const [node, goodbye] of this.#goodbyes) {
      await this.#deps.pulses.recordLeaving(node, goodbye)
      if (this.#goodbyes.get(node) === goodbye) this.#goodbyes.delete(node)
    }
  }

  async #flushBeats(): Promise<void> {
    if (this.#pending.size === 0) return
    const batch = [...this.#pending.values()].flatMap((ofNode) => [...ofNode.values()])
    const now = this.#deps.clock.monotonic()
    await this.#deps.pulses.recordBeats(batch.map((beat) => ({ ...beat, ageMs: now - beat.arrivedAt })))
    // A newer heartbeat that arrived meanwhile stays pending.
    for (const beat of batch) {
      const { node_id, incarnation } = beat.heartbeat
      const ofNode = this.#pending.get(node_id)
      if (ofNode?.get(incarnation) === beat) ofNode.delete(incarnation)
      if (ofNode?.size === 0) this.#pending.delete(node_id)
      if (this.#incarnations.size >= maxRemembered) this.#incarnations.clear()
      this.#incarnations.set(node_id, incarnation)
    }
  }

  /**
   * In this order: the bus answers, so everything that nodes published before has arrived; it is written; the clocks are
   * compared; and only then, if nothing failed meanwhile, nodes are declared silent.
   */
  async #tick(signal: AbortSignal): Promise<void> {
    const { bus, pulses, clock, silence } = this.#deps
    const busAnswered = await bus.ping(pingTimeoutMs).then(
      () => true,
      () => false,
    )
    const reported = [...this.#pending.keys()]
    let databaseNowMs: number | null = null
    try {
      await this.#flush()
      databaseNowMs = await pulses.databaseNow()
      this.#probe({ busAnswered, databaseNowMs })
      const { nodeTimeoutMs } = silence
      if (mayJudge(this.#attention, { now: clock.monotonic(), nodeTimeoutMs })) await this.#judge(databaseNowMs)
      await this.#deps.probeUnproven(signal)
      this.#streak.recovered()
    } catch (error) {
      this.#streak.failed({ error, pending: reported.length })
      this.#probe({ busAnswered, databaseNowMs: null })
    }
    this.#deps.onTick({ attention: this.#attention, reported })
  }

  #probe(answers: Pick<Probe, 'busAnswered' | 'databaseNowMs'>): void {
    const receivedAll = this.#lostBeats === 0
    if (!receivedAll && this.#attention.since !== null) {
      this.#deps.log.warn('heartbeats lost; no node is marked silent for one node timeout', { lost: this.#lostBeats })
    }
    this.#lostBeats = 0
    this.#attention = attend(this.#attention, { ...answers, receivedAll, at: this.#deps.clock.monotonic() }, limits)
  }

  async #judge(databaseNowMs: number): Promise<void> {
    const judged = await this.#deps.pulses.sweep({ ...this.#deps.silence, maxClockJumpMs: limits.maxClockJumpMs }, databaseNowMs)
    const silent = judged.filter((node) => node.liveness === 'silent').map((node) => node.id)
    if (silent.length > 0) this.#deps.log.warn('nodes became silent', { count: silent.length, nodes: silent.slice(0, 20) })
  }
}
