// Where requests can go, in memory: every model, with its replicas that serve on nodes that can be reached. Kept fresh
// by what changes, re-read as a whole now and then and on doubt; while the database is away the last state serves on.
// It can say up to which change it holds what is so: whoever waits for all controllers to know of one compares that.
import { createFailureStreak, createWakeTimer, mintGatewayToken, type Clock, type Log, type Secret } from '@muster/host'
import { gatewayPaths, gatewayScope, nodeStatus, type NodeId, type Policy, type ReplicaId } from '@muster/protocol'
import type { Change } from '../store/changes.ts'
import type { ReadyReplica, RouteScope, RouteStore } from '../store/routes.ts'
import { textKeyOf } from './prefix-key.ts'

const rereadEveryMs = 30_000
/** Doubts come in bursts: when a node dies, each request to it has one. */
const pauseMs = 100
const retryMs = 1_000

export interface Route {
  readonly replicaId: ReplicaId
  /** Of its id, for the order in which a key prefers replicas. */
  readonly mark: number
  readonly model: string
  readonly revision: string
  readonly nodeId: NodeId
  readonly nodeName: string
  /** Of the node's gateway. */
  readonly origin: string
  /** At the gateway; what the backend is asked for follows. */
  readonly path: string
  readonly authorization: string
  /** What that was made with. */
  readonly secret: Secret
}
export interface KnownModel {
  readonly name: string
  readonly createdAt: string
  readonly policy: Policy
  readonly replicas: readonly Route[]
}
export interface ReplicaTableDeps {
  readonly routes: Pick<RouteStore, 'models' | 'replicas'>
  /** Up to which change everything was noted here; null while that is not known, and then something may have been missed. */
  readonly notedTo: () => number | null
  /** It read, so that it may hold more than before. */
  readonly onRead: () => void
  /** Named in the tokens. */
  readonly controllerId: string
  readonly clock: Clock
  readonly log: Log
}

export class ReplicaTable {
  readonly #deps: ReplicaTableDeps
  readonly #wakeable: ReturnType<typeof createWakeTimer>
  readonly #watchers = new Map<string, Set<() => void>>()
  #models = new Map<string, KnownModel>()
  /** Reads follow each other: of two at once the older answer could come last, and stay. */
  #reading: Promise<unknown> = Promise.resolve()
  /** What is learned next, by one read that has not begun. */
  #learning: { readonly models: Set<string>; readonly done: Promise<void> } | null = null
  #isLoaded = false
  #dirty = { all: true, models: new Set<string>(), nodes: new Set<string>() }
  #isReading = false
  /** Null until all was read after the changes began to be followed. */
  #holdsTo: number | null = null

  constructor(deps: ReplicaTableDeps) {
    this.#deps = deps
    this.#wakeable = createWakeTimer(deps.clock)
  }

  /** False until all of it was read for the first time: nothing can be said of any model. */
  get isLoaded(): boolean {
    return this.#isLoaded
  }

  /** Up to which change it holds what is so. Null: not known. */
  get holdsTo(): number | null {
    if (this.#holdsTo !== null && !this.#isReading && !this.#isDirty()) this.#holdsTo = this.#deps.notedTo() ?? this.#holdsTo
    return this.#holdsTo
  }

  find(model: string): KnownModel | undefined {
    return this.#models.get(model)
  }

  list(): KnownModel[] {
    return [...this.#models.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  /**
   * Reads what is known of it now: by a read that begins after this call, once for all who ask until it begins. What was
   * just made here or elsewhere is not yet told by the feed.
   */
  async learn(model: string): Promise<void> {
    this.#learning ??= this.#planLearning()
    this.#learning.models.add(model)
    await this.#learning.done
  }

  #planLearning(): { models: Set<string>; done: Promise<void> } {
    const models = new Set<string>()
    const begin = (): RouteScope => {
      this.#learning = null
      return { models: [...models], nodes: [] }
    }
    return { models, done: this.#readInTurn(begin) }
  }

  /** Called back whenever something about the model was read again, until let go. */
  watch(model: string, onNews: () => void): () => void {
    const watchers = this.#watchers.get(model) ?? new Set()
    this.#watchers.set(model, watchers.add(onNews))
    return () => {
      watchers.delete(onNews)
      if (watchers.size === 0 && this.#watchers.get(model) === watchers) this.#watchers.delete(model)
    }
  }

  /** A change of a replica is one of its model too, so those need no look. */
  note(changes: readonly Change[]): void {
    for (const { kind, id } of changes) {
      if (kind === 'model') this.#dirty.models.add(id)
      else if (kind === 'node') this.#dirty.nodes.add(id)
      else continue
      this.#wakeable.wake()
    }
  }

  /** More was noted than is told by `note`: that nothing else happened, or that changes are followed from now on. */
  noteMoved(): void {
    if (this.#holdsTo !== null || this.#dirty.all) return
    this.#dirty.all = true
    this.#wakeable.wake()
  }

  /** A replica of it did not answer as it should: what is known may be old. */
  doubt(model: string): void {
    this.#dirty.models.add(model)
    this.#wakeable.wake()
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps
    const trouble = createFailureStreak({ what: 'where models run can not be read; what was known serves on', clock, log })
    let readAllAt = -Infinity
    while (!signal.aborted) {
      if (clock.monotonic() - readAllAt >= rereadEveryMs) this.#dirty.all = true
      const wasAll = this.#dirty.all
      try {
        await this.#readDirty()
        if (wasAll) readAllAt = clock.monotonic()
        trouble.recovered()
      } catch (error) {
        trouble.failed({ error })
        await clock.sleep(retryMs, signal).catch(() => undefined)
        continue
      }
      this.#deps.onRead()
      await clock.sleep(pauseMs, signal).catch(() => undefined)
      await this.#wakeable.pause(Math.max(readAllAt + rereadEveryMs - clock.monotonic(), 0), signal).catch(() => false)
    }
  }

  /** What was noted before it begins, and after that it holds all of it. */
  async #readDirty(): Promise<void> {
    const [dirty, notedTo] = [this.#dirty, this.#deps.notedTo()]
    this.#dirty = { all: false, models: new Set(), nodes: new Set() }
    this.#isReading = true
    try {
      await this.#readInTurn(() => (dirty.all ? null : { models: [...dirty.models], nodes: [...dirty.nodes] }))
      if (dirty.all || this.#holdsTo !== null) this.#holdsTo = notedTo ?? this.#holdsTo
    } catch (error) {
      this.#putBack(dirty)
      throw error
    } finally {
      this.#isReading = false
    }
  }

  #isDirty(): boolean {
    const { all, models, nodes } = this.#dirty
    return all || models.size > 0 || nodes.size > 0
  }

  #putBack(dirty: { all: boolean; models: Set<string>; nodes: Set<string> }): void {
    this.#dirty.all ||= dirty.all
    for (const model of dirty.models) this.#dirty.models.add(model)
    for (const node of dirty.nodes) this.#dirty.nodes.add(node)
  }

  /** After those that were asked for before, whatever became of them. */
  async #readInTurn(begin: () => RouteScope): Promise<void> {
    const turn = this.#reading.then(() => this.#read(begin()))
    this.#reading = turn.catch(() => undefined)
    await turn
  }

  async #read(scope: RouteScope): Promise<void> {
    if (scope !== null && scope.models.length + scope.nodes.length === 0) return
    const { routes } = this.#deps
    const [models, replicas] = await Promise.all([routes.models(scope), routes.replicas(scope)])
    const reread = scope === null ? null : { models: new Set(scope.models), nodes: new Set(scope.nodes) }
    const concerned = new Set(reread === null ? this.#models.keys() : [...reread.models, ...this.#modelsOn(reread.nodes)])
    for (const { name } of models) concerned.add(name)
    for (const { model } of replicas) concerned.add(model)

    const fresh = Map.groupBy(replicas, (replica) => replica.model)
    const named = new Map(models.map((model) => [model.name, model]))
    for (const name of concerned) {
      const before = this.#models.get(name)
      // A model that is only concerned through a node was not read itself.
      const wasRead = reread === null || reread.models.has(name)
      const model = named.get(name) ?? (wasRead ? undefined : before)
      if (model === undefined) {
        this.#models.delete(name)
        continue
      }
      const kept = wasRead ? [] : (before?.replicas ?? []).filter((route) => !reread.nodes.has(route.nodeId))
      const known = new Map(before?.replicas.map((route) => [route.replicaId, route]))
      const found = (fresh.get(name) ?? []).flatMap((replica) => this.#routeOf(replica, known.get(replica.id)))
      const sorted = [...kept, ...found].toSorted((a, b) => (a.replicaId < b.replicaId ? -1 : 1))
      this.#models.set(name, { name, createdAt: model.createdAt, policy: model.policy, replicas: sorted })
    }
    if (scope === null) this.#isLoaded = true
    for (const name of concerned) for (const onNews of [...(this.#watchers.get(name) ?? [])]) onNews()
  }

  #modelsOn(nodes: ReadonlySet<string>): string[] {
    if (nodes.size === 0) return []
    return [...this.#models.values()].filter((model) => model.replicas.some((route) => nodes.has(route.nodeId))).map((model) => model.name)
  }

  /** None when nothing can be sent there now. */
  #routeOf({ id, model, revision, node }: ReadyReplica, before: Route | undefined): Route[] {
    // Drained nodes serve on until what they run is drained itself.
    if (nodeStatus({ ...node, draining: false }).status !== 'healthy' || !URL.canParse(node.gatewayUrl)) return []
    const { origin, pathname } = new URL(node.gatewayUrl)
    const path = `${pathname.replace(/\/+$/, '')}${gatewayPaths.replica(id)}`
    const secret = node.gatewaySecret
    // Its node never changes; the secret of that may.
    const authorization =
      before?.secret.reveal() === secret.reveal()
        ? before.authorization
        : `Bearer ${mintGatewayToken({
            secret: secret.reveal(),
            nodeId: node.id,
            scope: gatewayScope.replica(id),
            controller: this.#deps.controllerId,
          })}`
    const mark = before?.mark ?? textKeyOf(id)
    return [{ replicaId: id, mark, model, revision, nodeId: node.id, nodeName: node.name, origin, path, authorization, secret }]
  }
}
