// How the fleet stays known: heartbeats are gathered and written in batches, silence is judged by
// whoever listened all the while, and nodes that owe a proof are asked for it.
// Every controller hears every heartbeat (a queue group would lose those handed to a controller
// that hangs); the database keeps the first to write it, so N controllers cost N statements, not N rows.
import type { Bus, Listening } from '@muster/bus'
import { createTrouble, createWakeable, type Clock, type Log, type Trouble } from '@muster/host'
import { heartbeat, nodeEvents, type Heartbeat, type NodeEvent, type NodeId } from '@muster/protocol'
import type { Beat, PulseStore, SilenceLimits } from '../store/pulses.ts'
import { attend, inattentive, mayJudge, type Attention } from './attention.ts'

/** How long a heartbeat waits for others to be written with. */
const flushEveryMs = 1_000
/** The first heartbeat of a process makes its node healthy: that does not wait for the batch. */
const flushFirstAfterMs = 50
/** Ids come from the bus, so anybody on it could invent them; what is remembered is bounded. */
const maxRemembered = 100_000
/** Of one node: its process, the one before it, and a copy or two. */
const maxProcesses = 4
/** One node that floods must not push out what the others say. */
const maxWaitingOfNode = { heartbeats: 16, events: 256 }
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
  /** By node, then process: what a wrong process says in a node's name must not push out what the right one said. */
  readonly #waiting = new Map<NodeId, Map<string, Waiting>>()
  /** Which process of a node was heard last. */
  readonly #heard = new Map<NodeId, string>()
  /** Said by workers that leave; kept until the database has them. */
  readonly #goodbyes = new Map<NodeId, { incarnation: string; seq: number }>()
  readonly #hurry: ReturnType<typeof createWakeable>
  readonly #trouble: Trouble
  #attention: Attention
  #beats: Listening | null = null
  /** How many heartbeats were lost in this process, and how many that were at the last look. */
  #forgotten = 0
  #lostBefore = 0

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
      await this.#tick(signal)
      const isHurried = await this.#hurry.pause(flushEveryMs, signal).catch(() => false)
      if (isHurried) await this.#deps.clock.sleep(flushFirstAfterMs, signal).catch(() => undefined)
    }
    await Promise.all(subscriptions.map((subscription) => subscription.stop()))
  }

  #subscribe(): Listening[] {
    const { bus } = this.#deps
    const everyNode = { node: '*' } as const
    const noteBeat = (message: Heartbeat, { node }: { node: NodeId }): void => {
      if (message.node_id === node) this.#note('bus', message)
    }
    const noteEvent = async (event: NodeEvent, { node }: { node: NodeId }): Promise<void> => {
      if (event.type !== 'leaving') return
      if (this.#goodbyes.size < maxRemembered) this.#goodbyes.set(node, event)
      await this.#flush().catch(() => undefined) // the next tick tries again
    }
    this.#beats = bus.subscribe(heartbeat, everyNode, noteBeat, { maxPerSubject: maxWaitingOfNode.heartbeats })
    return [this.#beats, bus.subscribe(nodeEvents, everyNode, noteEvent, { maxPerSubject: maxWaitingOfNode.events })]
  }

  #note(via: Beat['via'], beat: Reported): void {
    const resources = beat.resources === null ? null : JSON.stringify(beat.resources)
    if (this.#waiting.size >= maxRemembered) {
      this.#forgotten += this.#waiting.size
      this.#waiting.clear()
    }
    const ofNode = this.#waiting.get(beat.node_id) ?? new Map<string, Waiting>()
    this.#waiting.set(beat.node_id, ofNode)
    // Said last, kept longest.
    ofNode.delete(beat.incarnation)
    ofNode.set(beat.incarnation, { via, arrivedAt: this.#deps.clock.monotonic(), heartbeat: { ...beat, resources } })
    const [oldest] = ofNode.keys()
    if (ofNode.size > maxProcesses && oldest !== undefined) ofNode.delete(oldest)
    if (this.#heard.get(beat.node_id) !== beat.incarnation) this.#hurry.wake()
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
    const batch = [...this.#waiting.values()].flatMap((ofNode) => [...ofNode.values()])
    const now = this.#deps.clock.monotonic()
    await this.#deps.pulses.recordBeats(batch.map((beat) => ({ ...beat, ageMs: now - beat.arrivedAt })))
    // Only what was written is forgotten: what came meanwhile, or could not be written, waits on.
    for (const beat of batch) {
      const { node_id, incarnation } = beat.heartbeat
      const ofNode = this.#waiting.get(node_id)
      if (ofNode?.get(incarnation) === beat) ofNode.delete(incarnation)
      if (ofNode?.size === 0) this.#waiting.delete(node_id)
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
    const reported = [...this.#waiting.keys()]
    let databaseNowMs: number | null = null
    try {
      await this.#flush()
      databaseNowMs = await pulses.databaseNow()
      const heardAll = this.#heardAll()
      this.#attention = attend(this.#attention, { at: clock.monotonic(), busAnswered, heardAll, databaseNowMs }, limits)
      const { nodeTimeoutMs } = silence
      if (mayJudge(this.#attention, { now: clock.monotonic(), nodeTimeoutMs })) await this.#judge(databaseNowMs)
      await this.#deps.probeUnproven(signal)
      this.#trouble.over()
    } catch (error) {
      this.#trouble.failed({ error, waiting: reported.length })
      this.#attention = attend(
        this.#attention,
        { at: clock.monotonic(), busAnswered, heardAll: this.#heardAll(), databaseNowMs: null },
        limits,
      )
    }
    this.#deps.onTick({ attention: this.#attention, reported })
  }

  /** Whether no heartbeat was lost here since the last look: whoever was not heard then only seems silent. */
  #heardAll(): boolean {
    const lost = this.#forgotten + (this.#beats?.dropped() ?? 0)
    const isSame = lost === this.#lostBefore
    this.#lostBefore = lost
    return isSame
  }

  async #judge(databaseNowMs: number): Promise<void> {
    const judged = await this.#deps.pulses.sweep({ ...this.#deps.silence, maxClockJumpMs: limits.maxClockJumpMs }, databaseNowMs)
    const silent = judged.filter((node) => node.liveness === 'silent').map((node) => node.id)
    if (silent.length > 0) this.#deps.log.warn('nodes fell silent', { count: silent.length, nodes: silent.slice(0, 20) })
  }
}
