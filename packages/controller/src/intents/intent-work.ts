// The loop that makes wishes come true: takes what is due and sends it, takes over what a controller has dropped, notes
// what takes long, and asks about what is quiet. It remembers nothing between rounds; events only wake it.
import { type Clock, createLoop, type Log, type Loop } from '@muster/host'
import type { BackendName, IntentEvent, NodeId } from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { IntentStore, Read } from '../store/intents.ts'
import type { Advance } from './advance.ts'
import type { Ask } from './query.ts'
import { claimMs, leaseMs, type Send } from './send.ts'

export interface ReconcileDeps {
  readonly intents: IntentStore
  readonly advance: Advance
  readonly send: Send
  readonly ask: Ask
  /** A node that became an agent can't do what was wished of it any more. */
  readonly withdrawFromAgents: () => Promise<unknown>
  readonly holder: string
  readonly timeouts: { readonly installMs: number; readonly upgradeMs: number }
  readonly quietMs: number
  /** The safety poll; what is due earlier wakes it earlier. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

/** Commands that wait for their answer at once. Each is a promise, not a thread; a node has at most one. */
const lanes = 1_024
/** Questions at once. */
const maxAsked = 256
const batch = 200
/** Looking after what runs, however often the loop is woken. */
const watchEveryMs = 500
const cancelEveryMs = 1_000
/** Workers say within milliseconds whether they take a command on; 2 s later at most everybody shall see it. */
const unansweredMs = 500

export class Reconciler {
  readonly #deps: ReconcileDeps
  readonly #rounds: Loop
  readonly #sending = new Set<Promise<void>>()
  /** Requests to workers that answer at the end only, minutes later: they take nobody's place. */
  readonly #holding = new Map<string, { nodeId: NodeId; backend: BackendName; done: Promise<void> }>()
  readonly #asking = new Set<Promise<void>>()
  #watchedAt = -Infinity
  #renewedAt = -Infinity

  constructor(deps: ReconcileDeps) {
    this.#deps = deps
    this.#rounds = createLoop({ what: 'operations can not be carried on', ...deps })
  }

  wake(): void {
    this.#rounds.wake()
  }

  /** Until aborted; then what was sent and not answered is given back. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#rounds.run((until) => this.#round(until), signal)
    const held = [...this.#holding.values()].map(({ done }) => done)
    await Promise.all([...this.#sending, ...held, ...this.#asking])
  }

  async #round(signal: AbortSignal): Promise<number> {
    const { clock, intents, timeouts, intervalMs } = this.#deps
    await this.#sendDue(signal)
    const now = clock.monotonic()
    if (now - this.#watchedAt >= watchEveryMs) {
      this.#watchedAt = now
      await this.#watch(signal)
    }
    const { nextMs, isBusy } = await intents.outlook(timeouts)
    // What is past due and was not taken up is looked at with the next watch.
    const soon = nextMs === null ? Infinity : nextMs > 0 ? nextMs : watchEveryMs
    return Math.min(intervalMs, soon, isBusy ? watchEveryMs : Infinity)
  }

  async #sendDue(signal: AbortSignal): Promise<void> {
    const { intents, holder, send } = this.#deps
    for (;;) {
      if (lanes - this.#sending.size < batch || signal.aborted) return
      const { rows, now } = await intents.claim({ holder, leaseMs: claimMs, limit: batch })
      for (const row of rows) {
        if (row.features.includes('async')) this.#track(this.#sending, send(row, now, signal))
        else this.#hold(row.intent, send(row, now, signal))
      }
      if (rows.length < batch) return
    }
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { clock, intents, holder, timeouts, quietMs, ask } = this.#deps
    if (clock.monotonic() - this.#renewedAt >= leaseMs / 3) {
      this.#renewedAt = clock.monotonic()
      await intents.renew(holder, leaseMs, [...this.#holding.values()])
      await this.#deps.withdrawFromAgents()
      if (await intents.park()) this.wake()
    }
    await this.#advanceAll(await intents.findLost(batch), { type: 'lease_lost' })
    await this.#advanceAll(await intents.findOverdue(timeouts, batch), { type: 'overdue', againInMs: timeouts.installMs })
    const free = maxAsked - this.#asking.size
    if (free <= 0) return
    const { rows, now } = await intents.takeQuiet({ quietMs, unansweredMs, claimMs, cancelEveryMs, limit: Math.min(free, batch) })
    for (const row of rows) this.#track(this.#asking, ask(row, now, signal))
  }

  async #advanceAll({ rows, now }: Read<IntentRecord>, event: IntentEvent): Promise<void> {
    await Promise.all(rows.map((record) => this.#deps.advance({ record, event, now })))
  }

  #hold({ nodeId, backend, generation, epoch }: IntentRecord['intent'], work: Promise<void>): void {
    const key = `${nodeId} ${backend} ${generation} ${epoch}`
    const done = this.#guard(work).finally(() => {
      this.#holding.delete(key)
      this.wake()
    })
    this.#holding.set(key, { nodeId, backend, done })
  }

  /** One that takes its time holds up nobody; when it is done there may be more to do for the same node. */
  #track(running: Set<Promise<void>>, work: Promise<void>): void {
    const tracked = this.#guard(work).finally(() => {
      running.delete(tracked)
      this.wake()
    })
    running.add(tracked)
  }

  #guard(work: Promise<void>): Promise<void> {
    return work.catch((error: unknown) => this.#deps.log.error('a wish was left for the next try, by a mistake of ours', { error }))
  }
}
