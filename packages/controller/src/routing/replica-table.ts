// The routing table, in memory: every model with its ready replicas on reachable nodes. Updated by the change feed, re-read
// in full periodically and in part on doubt; while the database is away the last state is used. `position` is the change up
// to which the table is current; it is published.
import { type Clock, createLoop, type Log, type Loop, mintGatewayToken, type Secret } from '@muster/host'
import { gatewayPaths, gatewayScope, type NodeId, nodeStatus, type Policy, type ReplicaId } from '@muster/protocol'
import type { Change } from '../store/changes.ts'
import type { ControllerStore, ReadyReplica, RouteScope, RouteStore } from '../store/routes.ts'
import { textKeyOf } from './replica-choice.pure.ts'

const rereadEveryMs = 30_000
/** Stale marks come in bursts: when a node dies, each request to it sets one. */
const pauseMs = 100
const retryMs = 1_000

export interface Route {
  readonly replicaId: ReplicaId
  /** Hash of the id, for ranking replicas by prefix key. */
  readonly mark: number
  readonly model: string
  readonly revision: string
  readonly nodeId: NodeId
  readonly nodeName: string
  /** The node's gateway. */
  readonly origin: string
  /** Path prefix at the gateway; the backend's path follows. */
  readonly path: string
  readonly authorization: string
  /** The secret that signed `authorization`. */
  readonly secret: Secret
}
export interface RoutedModel {
  readonly name: string
  readonly createdAt: string
  readonly policy: Policy
  readonly isDisabled: boolean
  readonly replicas: readonly Route[]
}
export interface ReplicaTableDeps {
  readonly routes: Pick<RouteStore, 'models' | 'replicas'>
  /** The change up to which `markChanged` received everything; null: unknown, and changes may have been missed. */
  readonly feedCursor: () => number | null
  /** Called after each read: `position` may have moved. */
  readonly onRead: () => void
  /** Named in the tokens. */
  readonly controllerId: string
  readonly clock: Clock
  readonly log: Log
}

export class ReplicaTable {
  readonly #deps: ReplicaTableDeps
  readonly #loop: Loop
  readonly #watchers = new Map<string, Set<() => void>>()
  #models = new Map<string, RoutedModel>()
  /** Reads run one after the other, so that an older result never overwrites a newer one. */
  #reading: Promise<unknown> = Promise.resolve()
  /** The next refresh, which has not begun. */
  #nextRefresh: { readonly models: Set<string>; readonly done: Promise<void> } | null = null
  #isLoaded = false
  #dirty = { all: true, models: new Set<string>(), nodes: new Set<string>() }
  #isReading = false
  /** Null until a full read after the feed has its cursor. */
  #position: number | null = null

  constructor(deps: ReplicaTableDeps) {
    this.#deps = deps
    this.#loop = createLoop({ what: 'cannot read routes; using the last known ones', ...deps, retryMs })
  }

  /** False until the first full read. */
  get isLoaded(): boolean {
    return this.#isLoaded
  }

  /** The change up to which the table is current; null: unknown. */
  get position(): number | null {
    if (this.#position !== null && !this.#isReading && !this.#isDirty()) this.#position = this.#deps.feedCursor() ?? this.#position
    return this.#position
  }

  find(model: string): RoutedModel | undefined {
    return this.#models.get(model)
  }

  list(): RoutedModel[] {
    return [...this.#models.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Reads one model with a read that starts after this call, for changes that the feed has not delivered yet. Concurrent calls share a read. */
  async refresh(model: string): Promise<void> {
    this.#nextRefresh ??= this.#planRefresh()
    this.#nextRefresh.models.add(model)
    await this.#nextRefresh.done
  }

  #planRefresh(): { models: Set<string>; done: Promise<void> } {
    const models = new Set<string>()
    const begin = (): RouteScope => {
      this.#nextRefresh = null
      return { models: [...models], nodes: [] }
    }
    return { models, done: this.#readInTurn(begin) }
  }

  /** Calls `onNews` after each read of the model. Returns a function that stops the watch. */
  watch(model: string, onNews: () => void): () => void {
    const watchers = this.#watchers.get(model) ?? new Set()
    this.#watchers.set(model, watchers.add(onNews))
    return () => {
      watchers.delete(onNews)
      if (watchers.size === 0 && this.#watchers.get(model) === watchers) this.#watchers.delete(model)
    }
  }

  /** A change of a replica is also recorded as a change of its model. */
  markChanged(changes: readonly Change[]): void {
    for (const { kind, id } of changes) {
      if (kind === 'model') this.#dirty.models.add(id)
      else if (kind === 'node') this.#dirty.nodes.add(id)
      else continue
      this.#loop.wake()
    }
  }

  /** The feed's cursor moved. The first cursor requires a full read. */
  onCursorMoved(): void {
    if (this.#position !== null || this.#dirty.all) return
    this.#dirty.all = true
    this.#loop.wake()
  }

  /** A replica of the model did not respond as expected: its entries may be stale. */
  markStale(model: string): void {
    this.#dirty.models.add(model)
    this.#loop.wake()
  }

  /** Runs until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, onRead } = this.#deps
    let readAllAt = -Infinity
    await this.#loop.run(async () => {
      if (clock.monotonic() - readAllAt >= rereadEveryMs) this.#dirty.all = true
      const isFull = this.#dirty.all
      await this.#readDirty()
      if (isFull) readAllAt = clock.monotonic()
      onRead()
      await clock.sleep(pauseMs, signal)
      return readAllAt + rereadEveryMs - clock.monotonic()
    }, signal)
  }

  /** Reads everything marked before the read starts. */
  async #readDirty(): Promise<void> {
    const [dirty, cursor] = [this.#dirty, this.#deps.feedCursor()]
    this.#dirty = { all: false, models: new Set(), nodes: new Set() }
    this.#isReading = true
    try {
      await this.#readInTurn(() => (dirty.all ? null : { models: [...dirty.models], nodes: [...dirty.nodes] }))
      if (dirty.all || this.#position !== null) this.#position = cursor ?? this.#position
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

  /** After all earlier reads, whether they failed or not. */
  async #readInTurn(begin: () => RouteScope): Promise<void> {
    const turn = this.#reading.then(() => this.#read(begin()))
    this.#reading = turn.catch(() => undefined)
    await turn
  }

  async #read(scope: RouteScope): Promise<void> {
    if (scope !== null && scope.models.length + scope.nodes.length === 0) return
    const { routes: store } = this.#deps
    const [models, replicas] = await Promise.all([store.models(scope), store.replicas(scope)])
    const reread = scope === null ? null : { models: new Set(scope.models), nodes: new Set(scope.nodes) }
    const affected = new Set(reread === null ? this.#models.keys() : [...reread.models, ...this.#modelsOn(reread.nodes)])
    for (const { name } of models) affected.add(name)
    for (const { model } of replicas) affected.add(model)

    const fresh = Map.groupBy(replicas, (replica) => replica.model)
    const named = new Map(models.map((model) => [model.name, model]))
    for (const name of affected) {
      const before = this.#models.get(name)
      // A model that is affected only through a node was not read.
      const wasRead = reread === null || reread.models.has(name)
      const model = named.get(name) ?? (wasRead ? undefined : before)
      if (model === undefined) {
        this.#models.delete(name)
        continue
      }
      const kept = wasRead ? [] : (before?.replicas ?? []).filter((route) => !reread.nodes.has(route.nodeId))
      const previous = new Map(before?.replicas.map((route) => [route.replicaId, route]))
      const routes = (fresh.get(name) ?? []).flatMap((replica) => this.#routeOf(replica, previous.get(replica.id)))
      const sorted = [...kept, ...routes].toSorted((a, b) => (a.replicaId < b.replicaId ? -1 : 1))
      this.#models.set(name, { name, createdAt: model.createdAt, policy: model.policy, isDisabled: model.isDisabled, replicas: sorted })
    }
    if (scope === null) this.#isLoaded = true
    for (const name of affected) for (const onNews of [...(this.#watchers.get(name) ?? [])]) onNews()
  }

  #modelsOn(nodes: ReadonlySet<string>): string[] {
    if (nodes.size === 0) return []
    return [...this.#models.values()].filter((model) => model.replicas.some((route) => nodes.has(route.nodeId))).map((model) => model.name)
  }

  /** Empty when the node cannot be reached now. */
  #routeOf({ id, model, revision, node }: ReadyReplica, before: Route | undefined): Route[] {
    // A draining node serves until its replicas are drained.
    if (nodeStatus({ ...node, draining: false }).status !== 'healthy' || !URL.canParse(node.gatewayUrl)) return []
    const { origin, pathname } = new URL(node.gatewayUrl)
    const path = `${pathname.replace(/\/+$/, '')}${gatewayPaths.replica(id)}`
    const secret = node.gatewaySecret
    // A replica never changes its node, but the node's secret may change.
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

/** Changes come in bursts; a few writes per second are enough. */
const publishEveryMs = 200
const idleMs = 60_000

interface PositionPublisherDeps {
  readonly controllers: Pick<ControllerStore, 'recordRoutes'>
  readonly controllerId: string
  readonly position: () => number | null
  readonly clock: Clock
  readonly log: Log
}

/**
 * Publishes the position of this controller's table. A replica counts as admitted, and may be ended, once the position of every
 * controller is past the replica's change.
 */
export function createPositionPublisher({ controllers, controllerId, position, clock, log }: PositionPublisherDeps) {
  const loop = createLoop({ what: 'cannot publish routing position; retrying', clock, log, retryMs: publishEveryMs })
  let published = -1
  const isBehind = (): boolean => (position() ?? -1) > published

  return {
    /** Call it when the position may have moved. */
    wake: (): void => loop.wake(),
    /** Runs until aborted. Writes nothing while the position does not move. */
    run: (signal: AbortSignal): Promise<void> =>
      loop.run(async () => {
        if (!isBehind()) return idleMs
        const seq = position() ?? -1
        // The controller's row is inserted by its first heartbeat; until then the write is repeated.
        if (await controllers.recordRoutes(controllerId, seq)) published = seq
        await clock.sleep(publishEveryMs, signal)
        return isBehind() ? 0 : idleMs
      }, signal),
  }
}
