// Events → cache. Each event carries the whole current object, so applying one is putting it in its place; what an event
// says nothing of (a list that is derived from several objects) is read again by whoever shows it.
import { MutationCache, type Query, QueryClient, type QueryKey } from '@tanstack/react-query'
import type { NodeView, OperationFilter, OperationView, ReplicaView, ServerEvent, StatsBucket } from '@muster/protocol'
import { ApiFailure, isLoggedOut } from './client.ts'
import {
  appendSample,
  byName,
  type Change,
  isIn,
  merge,
  newestFirst,
  type NodeHistory,
  oldestFirst,
  type Order,
  parseEvent,
  type StatsEvent,
} from './live-change.pure.ts'
import { isOfSomeModel, isOfSomeNode, keys } from './queries.ts'

interface Applied {
  readonly kind: string
  readonly change: Change
  readonly at: number
}

const hourMs = 3_600_000
/** Longer than any answer takes to arrive. */
const rememberedMs = 60_000

export class LiveCache {
  readonly #client: QueryClient
  readonly #now: () => number
  #waiting: ServerEvent[] = []
  /** What came lately, for answers that were on their way meanwhile: they may be older. */
  #recent: Applied[] = []
  readonly #readSince = new Map<string, number>()

  constructor(client: QueryClient, now: () => number = () => performance.now()) {
    this.#client = client
    this.#now = now
    client.getQueryCache().subscribe(({ type, query, ...rest }) => {
      if (type === 'removed') this.#readSince.delete(query.queryHash)
      if (type !== 'updated' || !('action' in rest)) return
      if (rest.action.type === 'fetch') this.#readSince.set(query.queryHash, this.#now())
      if (rest.action.type === 'success' && rest.action.manual !== true) this.#repeatFor(query)
    })
  }

  /** Kept until `flush`: a burst of events is one change of the page. */
  take(event: ServerEvent): void {
    this.#waiting.push(event)
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  flush(): void {
    const events = this.#waiting
    this.#waiting = []
    const changes = new Map<string, Map<string, Change>>()
    for (const event of events) {
      const change = parseEvent(event)
      if (change === null) continue
      const ofKind = changes.get(event.type) ?? new Map<string, Change>()
      changes.set(event.type, ofKind.set(change.id, change))
    }
    const at = this.#now()
    this.#recent = this.#recent.filter((applied) => applied.at > at - rememberedMs)
    for (const [kind, ofKind] of changes) {
      for (const change of ofKind.values()) this.#recent.push({ kind, change, at })
      this.#apply(kind, [...ofKind.values()])
    }
  }

  /** Nobody knows what was missed. */
  readAgain(): void {
    this.#recent = []
    void this.#client.invalidateQueries()
  }

  #repeatFor(query: Query): void {
    const since = this.#readSince.get(query.queryHash)
    if (since === undefined) return
    const missed = Map.groupBy(
      this.#recent.filter(({ at }) => at >= since),
      ({ kind }) => kind,
    )
    // Not inside the cache's own turn: it is about to tell others of the answer.
    if (missed.size > 0) queueMicrotask(() => missed.forEach((all, kind) => this.#patch(kind, changesOf(all))))
  }

  #apply(kind: string, changes: readonly Change[]): void {
    this.#invalidate(kind, changes)
    this.#patch(kind, changes)
  }

  #patch(kind: string, changes: readonly Change[]): void {
    switch (kind) {
      case 'node':
        this.#patchHistories(changes as readonly Change<NodeView>[])
        return this.#patchList(keys.nodes, changes, byName)
      case 'backend':
        return this.#patchList(keys.backends, changes, byName)
      case 'model':
        return this.#patchList(keys.models, changes, byName)
      case 'operation':
        return this.#patchOperations(changes as readonly Change<OperationView>[])
      case 'replica':
        return this.#patchReplicas(changes as readonly Change<ReplicaView>[])
      case 'stats':
        return this.#patchStats(changes as readonly Change<StatsEvent>[])
      default:
        return undefined
    }
  }

  #patchList(key: QueryKey, changes: readonly Change[], order: Order): void {
    this.#client.setQueryData<readonly unknown[]>(key, (list) => list && merge(list, changes, order))
  }

  #patchHistories(changes: readonly Change<NodeView>[]): void {
    for (const { id, object } of changes)
      if (object !== null)
        this.#client.setQueryData<NodeHistory>(keys.node(id, 'history'), (history) => history && appendSample(history, object))
  }

  #patchOperations(changes: readonly Change<OperationView>[]): void {
    for (const { id, object } of changes) if (object !== null) this.#client.setQueryData(keys.operation(id), object)
    for (const filter of ['active', 'finished', 'all'] satisfies OperationFilter[]) {
      const belonging = changes.map((change) =>
        change.object !== null && isIn(filter, change.object) ? change : { ...change, object: null },
      )
      this.#patchList(keys.operations(filter), belonging, newestFirst)
    }
  }

  #patchReplicas(changes: readonly Change<ReplicaView>[]): void {
    for (const [predicate, field] of [
      [isOfSomeModel('replicas'), 'model'],
      [isOfSomeNode('replicas'), 'node_id'],
    ] as const) {
      for (const { queryKey } of this.#client.getQueryCache().findAll({ predicate })) {
        const belonging = changes.map((change) => (change.object?.[field] === queryKey[1] ? change : { ...change, object: null }))
        this.#patchList(queryKey, belonging, oldestFirst)
      }
    }
  }

  #patchStats(changes: readonly Change<StatsEvent>[]): void {
    this.#client.setQueryData<readonly StatsBucket[]>(keys.stats, (known) => {
      if (known === undefined) return undefined
      const told = changes.flatMap(({ object }) => (object === null ? [] : [object]))
      const replaced = new Set(told.map(({ at }) => at))
      const oldest = Math.max(...told.map(({ at }) => Date.parse(at))) - hourMs
      return [...known.filter(({ at }) => !replaced.has(at) && Date.parse(at) > oldest), ...told.flatMap(({ buckets }) => buckets)]
    })
  }

  /** What is derived of such objects is read again, if somebody looks at it. */
  #invalidate(kind: string, changes: readonly Change[]): void {
    const again = (queryKey: QueryKey): void => void this.#client.invalidateQueries({ queryKey })
    const againOfAll = (predicate: (query: Query) => boolean): void => void this.#client.invalidateQueries({ predicate })
    if (kind === 'node') {
      const known = this.#client.getQueryData<readonly NodeView[]>(keys.nodes) ?? []
      for (const { id, object } of changes as readonly Change<NodeView>[]) {
        const before = known.find((node) => node.id === id)
        if (before?.pending_ops !== object?.pending_ops || before?.status !== object?.status) again(keys.node(id, 'intents'))
        if (before?.status !== object?.status) again(keys.status)
        if (isPlacedOtherwise(before, object)) againOfAll(isOfSomeModel('placement'))
      }
    }
    if (kind === 'operation')
      for (const { object } of changes as readonly Change<OperationView>[])
        for (const { node_id: id } of object?.nodes.slice(0, 50) ?? [])
          if (this.#isShown(keys.node(id, 'intents'))) again(keys.node(id, 'intents'))
    if (kind === 'backend') {
      again(keys.upgrades)
      again(keys.galleryOf('backends'))
      againOfAll(isOfSomeNode('backends'))
    }
    if (kind === 'model') {
      again(keys.galleryOf('models'))
      for (const { id } of changes) {
        again(keys.model(id, 'placement'))
        again(keys.model(id, 'load-status'))
      }
    }
  }

  #isShown(queryKey: QueryKey): boolean {
    return this.#client.getQueryCache().find({ queryKey })?.isActive() ?? false
  }
}

/** Figures of a node change with every heartbeat; these are what somebody did, or what broke. */
const isPlacedOtherwise = (before: NodeView | undefined, now: NodeView | null): boolean =>
  before?.status !== now?.status ||
  before?.draining !== now?.draining ||
  JSON.stringify(before?.labels) !== JSON.stringify(now?.labels) ||
  before?.models.length !== now?.models.length

const changesOf = (applied: readonly Applied[]): Change[] => [...new Map(applied.map(({ change }) => [change.id, change])).values()]

const isWorthRepeating = (error: unknown): boolean =>
  error instanceof ApiFailure && (error.status === 0 || error.status === 429 || error.status >= 500)

export function createQueryClient(): QueryClient {
  // Whoever was logged out meanwhile is told by the first thing that is refused: the frame asks who is there, and shows the login.
  const mutationCache = new MutationCache({
    onError: (error) => void (isLoggedOut(error) && client.invalidateQueries({ queryKey: keys.status })),
  })
  const client = new QueryClient({
    mutationCache,
    defaultOptions: {
      queries: {
        staleTime: Infinity,
        gcTime: 10 * 60_000,
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
        retry: (_, error) => isWorthRepeating(error),
        retryDelay: (failures) => Math.min(1_000 * 2 ** failures, 10_000),
        // A browser's word that there is no network is wrong where the controller is on this very machine.
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  })
  return client
}
