// The loop that brings models up: sees to it that wanted slots have a load and others have none, takes what is due one step
// further, and looks after replicas that nobody holds. It remembers nothing between rounds; events only wake it.
import { type Clock, createLoop, type Log, type Loop } from '@muster/host'
import type { LoadEvent } from '@muster/protocol'
import type { LoadRecord } from '../store/load-rows.ts'
import type { Read } from '../store/intents.ts'
import type { LoadStore } from '../store/loads.ts'
import type { Advance } from './advance.ts'
import type { Apply } from './apply.ts'
import type { Demands } from './demands.ts'
import { decideSet, type SetDecision } from './replica-set.pure.ts'

export interface LoadLoopDeps {
  readonly loads: LoadStore
  readonly demand: Demands
  readonly advance: Advance
  readonly apply: Apply
  /** Decides about replicas that no load holds, and has those ended that are to go. True: some wait for what wakes nobody. */
  readonly tendReplicas: (signal: AbortSignal) => Promise<boolean>
  readonly holder: string
  readonly idleMs: number
  /** The safety poll; what is due earlier wakes it earlier. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

/** Whoever has not noted what came of it by then is gone, and another one goes on. */
const leaseMs = 8_000
const batch = 64
const lanes = 256
/** However often it is woken, it is not looked more often for nodes that went away. */
const lookEveryMs = 100
/** Nor is what all models want compared with all loads; a load that somebody waits for is there without it. */
const compareEveryMs = 1_000
/**
 * Every step of a replica changes its node, and each look at a load judges all nodes. The others are looked at by themselves a
 * few seconds later.
 */
const hurriedAtOnce = 8
/** Requests may still come to what is to end. */
const leavingEveryMs = 200

type Move = Readonly<{ record: LoadRecord; now: number; event: LoadEvent; among?: readonly LoadRecord[] }>

export class LoadLoop {
  readonly #deps: LoadLoopDeps
  readonly #rounds: Loop
  readonly #running = new Set<Promise<void>>()
  #lookedAt = -Infinity
  #comparedAt = -Infinity
  #areNodesNew = false
  #isTending = false
  /** What wakes nobody is waited for: that every controller knows of a replica. */
  #isUnderWay = false
  #isLeaving = false

  constructor(deps: LoadLoopDeps) {
    this.#deps = deps
    this.#rounds = createLoop({ what: 'models can not be brought up', ...deps })
  }

  wake(): void {
    this.#rounds.wake()
  }

  /** What found no place may have one now. */
  noteNodes(): void {
    this.#areNodesNew = true
    this.wake()
  }

  /** Until aborted; what it holds then is taken over when its lease ends. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#rounds.run((until) => this.#round(until), signal)
    await Promise.all(this.#running)
  }

  async #round(signal: AbortSignal): Promise<number> {
    const { clock, loads, intervalMs } = this.#deps
    await this.#takeDue(signal)
    const now = clock.monotonic()
    const compareInMs = this.#comparedAt + compareEveryMs - now
    const lookInMs = this.#lookedAt + lookEveryMs - now
    if (compareInMs <= 0) {
      this.#comparedAt = now
      await this.#compare()
    }
    if (lookInMs <= 0) {
      this.#lookedAt = now
      await this.#leaveAway()
      this.#tend(signal)
    }
    if (compareInMs <= 0 || lookInMs <= 0) await this.#takeDue(signal)
    const nextMs = await loads.nextDue()
    const owedMs = [compareInMs, lookInMs].filter((ms) => ms > 0)
    const againMs = [...(this.#isUnderWay ? [compareEveryMs] : []), ...(this.#isLeaving ? [leavingEveryMs] : [])]
    return Math.min(intervalMs, nextMs === null ? Infinity : Math.max(nextMs, 50), ...owedMs, ...againMs)
  }

  async #takeDue(signal: AbortSignal): Promise<void> {
    const { loads, holder, apply } = this.#deps
    while (!signal.aborted && lanes - this.#running.size >= batch) {
      const { rows, now } = await loads.claim({ holder, leaseMs, limit: batch })
      for (const row of rows) this.#track(apply(row, now, signal))
      if (rows.length < batch) return
    }
  }

  /** What is wanted and what there is. */
  async #compare(): Promise<void> {
    const { loads, idleMs, log } = this.#deps
    if (this.#areNodesNew) {
      this.#areNodesNew = false
      await loads.reconsider(hurriedAtOnce)
    }
    const idle = await loads.forgetIdle(idleMs)
    if (idle.length > 0) log.info('models are idle', { models: idle.slice(0, 20) })
    // In this order: a load that is asked for in between is not there yet. The other way round it would seem to be too much.
    const { rows, now } = await loads.listSets()
    const models = await this.#deps.demand.all()
    const byModel = Map.groupBy(rows, ({ load }) => load.model)
    const decided = models.map((model) => ({ set: byModel.get(model.name) ?? [], ...decideSet(model, byModel.get(model.name) ?? []) }))
    this.#isUnderWay = decided.some(({ isUnderWay }) => isUnderWay)
    for (const { set, events } of decided) if (events.length > 0) await this.#change({ set, events, now })
    await loads.add(decided.flatMap(({ add }) => add))
  }

  /** One after the other, each on the loads of its model as they were read and as this made them since. */
  async #change({ set, events, now }: { set: readonly LoadRecord[]; events: SetDecision['events']; now: number }): Promise<void> {
    let among = set.filter(({ load }) => load.purpose === 'serve')
    for (const { load, event } of events) {
      const record = among.find((each) => each.load === load)
      if (record === undefined) continue
      const after = await this.#move({ record, now, event, among })
      if (after === null || after === 'crowded') return
      among = among.flatMap((each) => (each !== record ? [each] : after === 'gone' ? [] : [after]))
    }
  }

  async #leaveAway(): Promise<void> {
    const { rows, now } = await this.#deps.loads.findAway(batch)
    for (const record of rows) await this.#move({ record, now, event: { type: 'node_away' } })
  }

  /** Decided on the row as it was read; if it was moved since, the next round looks again. */
  async #move({ record, now, event, among }: Move): ReturnType<Advance> {
    let left: Read<LoadRecord> = { now, rows: [record] }
    const read = async (): Promise<Read<LoadRecord>> => {
      const given = left
      left = { now, rows: [] }
      return given
    }
    const moved = await this.#deps.advance({ read, eventOf: () => event, ...(among === undefined ? {} : { among }) })
    this.wake()
    return moved
  }

  /** Workers that do not answer hold up no load. */
  #tend(signal: AbortSignal): void {
    if (this.#isTending) return
    this.#isTending = true
    const tended = this.#deps.tendReplicas(signal).then((areLeaving) => void (this.#isLeaving = areLeaving))
    this.#track(tended.finally(() => (this.#isTending = false)))
  }

  #track(work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) => this.#deps.log.error('a load was left for the next try, by a mistake of ours', { error }))
      .finally(() => {
        this.#running.delete(tracked)
        this.wake()
      })
    this.#running.add(tracked)
  }
}
