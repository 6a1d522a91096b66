// The query cache, kept current by events. Each event carries a whole object, which replaces the cached one; lists that the
// server derives from several objects are invalidated and read again when they are shown.
import { MutationCache, type Query, QueryClient, type QueryKey } from '@tanstack/react-query'
import type { NodeView, OperationFilter, OperationView, ReplicaView, ServerEvent, StatsBucket } from '@muster/protocol'
import { ApiFailure, isLoggedOut } from './client.ts'
import {
  appendSample,
  byName,
  type Change,
  matchesFilter,
  merge,
  newestFirst,
  type NodeHistory,
  oldestFirst,
  type Order,
  parseEvent,
  type StatsEvent,
} from './live-change.pure.ts'
import { isModelQuery, isNodeQuery, keys } from './queries.ts'

interface AppliedChange {
  readonly kind: string
  readonly change: Change
  readonly at: number
}

const hourMs = 3_600_000
/** Longer than any response takes to arrive. */
const recentMs = 60_000

export class LiveCache {
  readonly #client: QueryClient
  readonly #now: () => number
  #queue: ServerEvent[] = []
  /** Recent changes, replayed onto responses that were requested before them. */
  #recent: AppliedChange[] = []
  readonly #requestedAt = new Map<string, number>()

  constructor(client: QueryClient, now: () => number = () => performance.now()) {
    this.#client = client
    this.#now = now
    client.getQueryCache().subscribe(({ type, query, ...rest }) => {
      if (type === 'removed') this.#requestedAt.delete(query.queryHash)
      if (type !== 'updated' || !('action' in rest)) return
      if (rest.action.type === 'fetch') this.#requestedAt.set(query.queryHash, this.#now())
      if (rest.action.type === 'success' && rest.action.manual !== true) this.#replayFor(query)
    })
  }

  /** Queued until `flush`, so that a burst of events renders once. */
  add(event: ServerEvent): void {
    this.#queue.push(event)
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  flush(): void {
    const events = this.#queue
    this.#queue = []
    const changes = new Map<string, Map<string, Change>>()
    for (const event of events) {
      const change = parseEvent(event)
      if (change === null) continue
      const byId = changes.get(event.type) ?? new Map<string, Change>()
      changes.set(event.type, byId.set(change.id, change))
    }
    const at = this.#now()
    this.#recent = this.#recent.filter((applied) => applied.at > at - recentMs)
    for (const [kind, byId] of changes) {
      for (const change of byId.values()) this.#recent.push({ kind, change, at })
      this.#apply(kind, [...byId.values()])
    }
  }

  /** For when events may have been missed. */
  invalidateAll(): void {
    this.#recent = []
    void this.#client.invalidateQueries()
  }

  #replayFor(query: Query): void {
    const since = this.#requestedAt.get(query.queryHash)
    if (since === undefined) return
    const missed = Map.groupBy(
      this.#recent.filter(({ at }) => at >= since),
      ({ kind }) => kind,
    )
    // After the cache has notified its observers of this response.
    if (missed.size > 0) queueMicrotask(() => missed.forEach((applied, kind) => this.#patch(kind, changesOf(applied))))
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
      const matching = changes.map((change) =>
        change.object !== null && matchesFilter(filter, change.object) ? change : { ...change, object: null },
      )
      this.#patchList(keys.operations(filter), matching, newestFirst)
    }
  }

  #patchReplicas(changes: readonly Change<ReplicaView>[]): void {
    for (const [predicate, field] of [
      [isModelQuery('replicas'), 'model'],
      [isNodeQuery('replicas'), 'node_id'],
    ] as const) {
      for (const { queryKey } of this.#client.getQueryCache().findAll({ predicate })) {
        const matching = changes.map((change) => (change.object?.[field] === queryKey[1] ? change : { ...change, object: null }))
        this.#patchList(queryKey, matching, oldestFirst)
      }
    }
  }

  #patchStats(changes: readonly Change<StatsEvent>[]): void {
    this.#client.setQueryData<readonly StatsBucket[]>(keys.stats, (cached) => {
      if (cached === undefined) return undefined
      const added = changes.flatMap(({ object }) => (object === null ? [] : [object]))
      const replaced = new Set(added.map(({ at }) => at))
      const oldest = Math.max(...added.map(({ at }) => Date.parse(at))) - hourMs
      return [...cached.filter(({ at }) => !replaced.has(at) && Date.parse(at) > oldest), ...added.flatMap(({ buckets }) => buckets)]
    })
  }

  /** Reads lists derived from these objects again, when they are shown. */
  #invalidate(kind: string, changes: readonly Change[]): void {
    const invalidate = (queryKey: QueryKey): void => void this.#client.invalidateQueries({ queryKey })
    const invalidateAll = (predicate: (query: Query) => boolean): void => void this.#client.invalidateQueries({ predicate })
    if (kind === 'node') {
      const cached = this.#client.getQueryData<readonly NodeView[]>(keys.nodes) ?? []
      for (const { id, object } of changes as readonly Change<NodeView>[]) {
        const before = cached.find((node) => node.id === id)
        if (before?.pending_ops !== object?.pending_ops || before?.status !== object?.status) invalidate(keys.node(id, 'intents'))
        if (before?.status !== object?.status) invalidate(keys.status)
        if (affectsPlacement(before, object)) invalidateAll(isModelQuery('placement'))
      }
    }
    if (kind === 'operation')
      for (const { object } of changes as readonly Change<OperationView>[])
        for (const { node_id: id } of object?.nodes.slice(0, 50) ?? [])
          if (this.#isShown(keys.node(id, 'intents'))) invalidate(keys.node(id, 'intents'))
    if (kind === 'backend') {
      invalidate(keys.upgrades)
      invalidate(keys.galleryOf('backends'))
      invalidateAll(isNodeQuery('backends'))
    }
    if (kind === 'model') {
      invalidate(keys.galleryOf('models'))
      for (const { id } of changes) {
        invalidate(keys.model(id, 'placement'))
        invalidate(keys.model(id, 'load-status'))
      }
    }
  }

  #isShown(queryKey: QueryKey): boolean {
    return this.#client.getQueryCache().find({ queryKey })?.isActive() ?? false
  }
}

/** Resource figures change with every heartbeat and do not count. */
const affectsPlacement = (before: NodeView | undefined, now: NodeView | null): boolean =>
  before?.status !== now?.status ||
  before?.draining !== now?.draining ||
  JSON.stringify(before?.labels) !== JSON.stringify(now?.labels) ||
  before?.models.length !== now?.models.length

const changesOf = (applied: readonly AppliedChange[]): Change[] => [...new Map(applied.map(({ change }) => [change.id, change])).values()]

const isRetryable = (error: unknown): boolean =>
  error instanceof ApiFailure && (error.status === 0 || error.status === 429 || error.status >= 500)

/** Nothing in this cache expires: events keep it current, and a gap in the events invalidates everything. */
export function createQueryClient(): QueryClient {
  // A 401 means that the session has ended: reading the status again makes the frame show the login page.
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
        retry: (_, error) => isRetryable(error),
        retryDelay: (failures) => Math.min(1_000 * 2 ** failures, 10_000),
        // A browser that reports itself offline can still reach a controller on the same machine.
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  })
  return client
}
