// Loads as work of the engine: keeps a load for every desired replica and none for others, takes due loads one step further, and
// tends replicas that no load owns. It remembers nothing between rounds; events only wake it. Every step of a load is written by
// `advance`.
import type { Clock, Log } from '@muster/host'
import { type Load, type LoadEvent, type ModelName, type NodeId, stepLoad } from '@muster/protocol'
import { mayRunOn } from '../nodes/view.ts'
import type { Read } from '../store/intents.ts'
import type { ListedLoad, LoadRecord } from '../store/load-rows.ts'
import type { LoadStore, WantedModel } from '../store/loads.ts'
import type { NodeStore } from '../store/nodes.ts'
import { claimLeaseMs, createEngine, createLanes, type Engine, type Lanes } from '../work/engine.ts'
import type { Apply } from './apply.ts'
import { replicasOf, type StepDetail } from './loads.pure.ts'
import { decideSet, isCrowded, type SetDecision } from './replica-set.pure.ts'

export interface LoadWorkDeps {
  readonly loads: LoadStore
  readonly demand: Demands
  readonly advance: Advance
  readonly apply: Apply
  /**
   * Decides about replicas that no load owns, and unloads draining ones. True: some wait for other controllers, and no event
   * wakes the loop for that.
   */
  readonly tendReplicas: (signal: AbortSignal) => Promise<boolean>
  /** A node without a replica of this model that has room for one; null: none. */
  readonly findSpread: (model: WantedModel) => Promise<NodeId | null>
  /** True: nothing is claimed or decided. Other controllers do it, or the next start. */
  readonly isPaused: () => boolean
  readonly holder: string
  /** Read at each use. */
  readonly idleMs: number
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

const batch = 64
const lanes = 256
/** Loads on absent nodes are searched this often, however often the loop is woken. */
const lookEveryMs = 100
/** Desired replicas are compared with all loads this often, also unwoken. A cold model gets its load without that. */
const compareEveryMs = 1_000
/**
 * Every step of a replica changes its node, and every decision about a load rates all nodes, so only the first few are
 * reconsidered at once.
 */
const reconsideredAtOnce = 8
/** How often, and for how many models at once, a node is searched for replicas that share one. */
const spreadEveryMs = 10_000
const spreadAtOnce = 16
/** Requests may still arrive at draining replicas, so those are checked more often. */
const drainingEveryMs = 200

type DueLoad = Readonly<{ row: LoadRecord; now: number }>
type Move = Readonly<{ record: LoadRecord; now: number; event: LoadEvent; among?: readonly LoadRecord[] }>

export class LoadWork {
  readonly #deps: LoadWorkDeps
  readonly #engine: Engine
  readonly #tending: Lanes
  #lookedAt = -Infinity
  #comparedAt = -Infinity
  #spreadAt = -Infinity
  /** The models after this one are searched next; a restart begins with the first. */
  #spreadAfter = ''
  #hasNewNodes = false
  #areSomeDraining = false
  /** Milliseconds until the comparison or search that was too early at the last wake. */
  #owedMs = Infinity

  constructor(deps: LoadWorkDeps) {
    const { loads, holder, apply, log } = deps
    this.#deps = deps
    // Its end wakes nothing unless replicas drain: each look would cause the next one.
    this.#tending = createLanes({ size: 1, onFree: () => this.#areSomeDraining && this.wake(), log })
    this.#engine = createEngine<DueLoad>(
      {
        what: 'cannot advance loads; retrying',
        lanes,
        batch,
        async claim(limit) {
          if (deps.isPaused()) return []
          const { rows, now } = await loads.claim({ holder, leaseMs: claimLeaseMs, limit })
          return rows.map((row) => ({ row, now }))
        },
        run: ({ row, now }, signal) => apply(row, now, signal),
        tend: (signal) => this.#tend(signal),
        nextMs: () => this.#nextMs(),
      },
      deps,
    )
  }

  wake(): void {
    this.#engine.wake()
  }

  /** Loads that found no node may have one now. */
  noteNodes(): void {
    this.#hasNewNodes = true
    this.wake()
  }

  /** Runs until aborted; unfinished loads are claimed again when their lease ends. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#engine.run(signal)
    await this.#tending.drained()
  }

  async #tend(signal: AbortSignal): Promise<boolean> {
    if (this.#deps.isPaused()) return false
    const now = this.#deps.clock.monotonic()
    const compareInMs = this.#comparedAt + compareEveryMs - now
    const lookInMs = this.#lookedAt + lookEveryMs - now
    if (compareInMs <= 0) {
      this.#comparedAt = now
      await this.#compare()
    }
    if (lookInMs <= 0) {
      this.#lookedAt = now
      await this.#leaveAbsentNodes()
      await this.#takeArrivedBackends()
      this.#tendReplicas(signal)
    }
    this.#owedMs = Math.min(...[compareInMs, lookInMs].map((ms) => (ms > 0 ? ms : Infinity)))
    return compareInMs <= 0 || lookInMs <= 0
  }

  async #nextMs(): Promise<number> {
    const dueMs = await this.#deps.loads.nextDue()
    return Math.min(
      dueMs === null ? Infinity : Math.max(dueMs, 50),
      this.#owedMs,
      compareEveryMs,
      this.#areSomeDraining ? drainingEveryMs : Infinity,
    )
  }

  /** Compares the desired replicas of models with their loads. */
  async #compare(): Promise<void> {
    const { loads, idleMs, log } = this.#deps
    if (this.#hasNewNodes) {
      this.#hasNewNodes = false
      await loads.reconsider(reconsideredAtOnce)
    }
    const idle = await loads.forgetIdle(idleMs)
    if (idle.length > 0) log.info('models became idle', { models: idle.slice(0, 20) })
    // In this order: a load that is requested in between is only missing here. In the other order it would be removed as
    // superfluous.
    const { rows, now, unreadable } = await loads.listSets()
    const models = (await this.#deps.demand.all()).filter(({ name }) => !unreadable.has(name))
    const byModel = Map.groupBy(rows, ({ load }) => load.model)
    const spreads = await this.#findSpreads(models, byModel)
    const decided = models.map((model) => {
      const set = byModel.get(model.name) ?? []
      return { set, ...decideSet(model, set, spreads.get(model.name) ?? null) }
    })
    for (const { set, events } of decided) if (events.length > 0) await this.#change({ set, events, now })
    await loads.add(decided.flatMap(({ add }) => add))
  }

  /** Nodes for models whose replicas share one. */
  async #findSpreads(
    models: readonly WantedModel[],
    byModel: ReadonlyMap<ModelName, readonly ListedLoad[]>,
  ): Promise<ReadonlyMap<ModelName, NodeId>> {
    const found = new Map<ModelName, NodeId>()
    const now = this.#deps.clock.monotonic()
    if (now - this.#spreadAt < spreadEveryMs) return found
    this.#spreadAt = now
    const crowded = models.filter((model) => isCrowded(model, byModel.get(model.name) ?? [])).toSorted((a, b) => (a.name < b.name ? -1 : 1))
    const next = crowded.filter(({ name }) => name > this.#spreadAfter).slice(0, spreadAtOnce)
    this.#spreadAfter = next.length < spreadAtOnce ? '' : (next.at(-1)?.name ?? '')
    for (const model of next) {
      const nodeId = await this.#deps.findSpread(model)
      if (nodeId !== null) found.set(model.name, nodeId)
    }
    return found
  }

  /** One event after the other, each on the loads of its model as they were read and as the events before left them. */
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

  async #leaveAbsentNodes(): Promise<void> {
    const { rows, now } = await this.#deps.loads.findAway(batch)
    for (const record of rows) await this.#move({ record, now, event: { type: 'node_away' } })
  }

  async #takeArrivedBackends(): Promise<void> {
    const { rows, now } = await this.#deps.loads.findArrived(batch)
    for (const record of rows) await this.#move({ record, now, event: { type: 'backend_arrived' } })
  }

  /** Applies an event to the row that was read; if the row has changed since, the next round decides again. */
  async #move({ record, now, event, among }: Move): ReturnType<Advance> {
    let rows: Read<LoadRecord>['rows'] = [record]
    const read = async (): Promise<Read<LoadRecord>> => {
      const given = { now, rows }
      rows = []
      return given
    }
    const moved = await this.#deps.advance({ read, eventOf: () => event, ...(among === undefined ? {} : { among }) })
    this.wake()
    return moved
  }

  /** Runs beside the loads, so that workers that do not answer delay none. */
  #tendReplicas(signal: AbortSignal): void {
    if (this.#tending.free() === 0) return
    this.#tending.add(this.#deps.tendReplicas(signal).then((areSomeDraining) => void (this.#areSomeDraining = areSomeDraining)))
  }
}

// The steps of a load. A load that was changed meanwhile is read again, and the event is decided again.

interface AdvanceDeps {
  readonly loads: LoadStore
  /** Called with every transition that was written here. */
  readonly onStep: (transition: LoadTransition) => void
  readonly random: () => number
  readonly log: Log
}
export type LoadTransition = Readonly<{ from: LoadRecord; to: Load | 'gone'; event: LoadEvent }>

interface LoadMove {
  /** Reads the load; the first time it may return one that was read before. */
  readonly read: () => Promise<Read<LoadRecord>>
  /** Null: the event does not apply to this load. */
  readonly eventOf: (load: Load) => LoadEvent | null
  readonly detail?: StepDetail
  /** The loads of the model that the decision was based on: if any has changed since, nothing is written. */
  readonly among?: readonly LoadRecord[]
}
/** The written load; null when the event does not apply any more. `crowded`: replicas were added to the node since it was chosen. */
export type Advance = (move: LoadMove) => Promise<LoadRecord | 'gone' | 'crowded' | null>

/** A round is lost only when another writer has changed the load. */
const maxRounds = 20

export function createAdvance({ loads, onStep, random, log }: AdvanceDeps): Advance {
  return async ({ read, eventOf, detail = {}, among }) => {
    for (let round = 0; round < maxRounds; round += 1) {
      const { rows, now } = await read()
      const [from] = rows
      const event = from === undefined ? null : eventOf(from.load)
      if (from === undefined || event === null) return null
      const to = stepLoad(from.load, event, { now, chance: random() })
      if (to === null) return null
      const replicas = replicasOf(from.load, event, detail)
      const written = await loads.apply({ from, to, replicas, ...(among === undefined ? {} : { among }) })
      if (written === 'crowded') return written
      if (written === 'moved') {
        // The replica or another load of the model has changed; the caller decides again.
        if (event.type === 'returned' || among !== undefined) return null
        continue
      }
      logTransition({ from, to, event }, log)
      onStep({ from, to, event })
      return to === 'gone' ? to : { ...from, load: to, version: from.version + 1 }
    }
    return null
  }
}

function logTransition({ from, to, event }: LoadTransition, log: Log): void {
  const { model, ordinal, purpose } = from.load
  const about = { model, ordinal, purpose, was: from.load.state, by: event.type }
  if (to === 'gone') return log.info('load removed', about)
  const where = 'nodeId' in to ? { node: to.nodeId } : {}
  const which = 'replicaId' in to ? { replica: to.replicaId } : {}
  if (to.state === 'failed' && from.load.state !== 'failed') {
    const { message: error, code } = to.failure
    // A worker that stops cancels its loads: nothing is wrong.
    return code === 'cancelled'
      ? log.info('load cancelled', { ...about, ...where, reason: error })
      : log.warn('load failed', { ...about, ...where, error, code })
  }
  if (to.state !== from.load.state) log.info('load changed state', { ...about, state: to.state, ...where, ...which })
}

/** Models with the number of nodes they may run on, which `replicas: all` needs. */
export interface Demands {
  all(): Promise<WantedModel[]>
  find(name: ModelName): Promise<WantedModel | null>
}

export function createDemands({ loads, nodes }: { loads: Pick<LoadStore, 'model' | 'models'>; nodes: Pick<NodeStore, 'list'> }): Demands {
  const countMatching = async (models: WantedModel[]): Promise<WantedModel[]> => {
    const isEverywhere = ({ config }: WantedModel): boolean => config.scheduling.replicas === 'all'
    if (!models.some(isEverywhere)) return models
    const all = await nodes.list()
    return models.map((model) => {
      const matching = isEverywhere(model) ? all.filter((node) => mayRunOn(node, model.config)).length : 0
      return { ...model, matching }
    })
  }
  return {
    all: async () => await countMatching(await loads.models()),
    async find(name) {
      const model = await loads.model(name)
      return model === null ? null : ((await countMatching([model]))[0] ?? null)
    },
  }
}
