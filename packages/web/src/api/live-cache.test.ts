import { ModelView, NodeView, OperationView, ReplicaView, type BackendView, type StatsBucket } from '@muster/protocol'
import { QueryObserver, type QueryKey } from '@tanstack/react-query'
import { beforeEach, describe, expect, it } from 'vitest'
import { createQueryClient, LiveCache } from './live-cache.ts'

const resources = {
  cpus: 8,
  total_ram: 10,
  available_ram: 5,
  total_vram: null,
  available_vram: null,
  total_disk: null,
  available_disk: null,
  gpu_vendor: null,
  unified_memory: false,
}
const node = (id: string, some: object = {}): NodeView =>
  NodeView.parse({
    ...{
      id,
      name: id,
      node_type: 'backend',
      status: 'healthy',
      status_reason: '',
      draining: false,
      labels: {},
      resources,
      vram_budget: null,
    },
    ...{ version: '1', os: 'linux', arch: 'amd64', capability: 'cpu', features: [], gateway_url: '', public_key: '', created_at: '' },
    ...{ approved_at: null, last_seen_at: null, in_flight: 0, models: [], backends: [], pending_ops: 0 },
    ...some,
  })
const operation = (id: string, state: string, some: object = {}): OperationView =>
  OperationView.parse({
    ...{ id, kind: 'backend.install', backend: 'llama', model: null, state, message: '', progress: 0, file_name: '', current_bytes: 0 },
    ...{ total_bytes: 0, created_at: `2026-01-0${id.length}`, finished_at: null, requested_by: 'admin', nodes: [] },
    ...some,
  })
const replica = (id: string, some: object = {}): ReplicaView =>
  ReplicaView.parse({
    ...{ id, model: 'chat', revision: '1', node_id: 'one', node_name: 'one', state: 'ready', reachable: true, backend_digest: null },
    ...{ in_flight: 0, started_at: '2026-01-01' },
    ...some,
  })
const backend = (name: string, drift = false): BackendView => ({
  ...{ name, is_system: false, is_meta: false, nodes: [], upgrade_available: false, drift },
  metadata: { name, installed_at: '', gallery_url: '', version: '1', uri: '', digest: '' },
})
const model = (name: string, state = 'ready'): ModelView =>
  ModelView.parse({
    ...{ name, backend: 'llama', revision: '1', state, replicas_ready: 1, replicas_desired: 1, failure: null },
    config: { name, backend: 'llama', parameters: {}, files: [], options: {}, known_usecases: [], scheduling: {} },
  })
const bucket = (at: string, requests: number): StatsBucket => ({
  ...{
    at,
    model: 'chat',
    node_id: 'one',
    requests,
    errors: 0,
    client_errors: 0,
    overloaded: 0,
    prompt_tokens: 0,
    completion_tokens: 0,
    in_flight: 0,
    duration_ms: 0,
  },
})

let client = createQueryClient()
let cache = new LiveCache(client)
let now = 0
beforeEach(() => {
  client = createQueryClient()
  now = 1_000
  cache = new LiveCache(client, () => now)
})

const receive = (...events: (readonly [type: string, object: unknown])[]): void => {
  for (const [type, object] of events)
    cache.add({ type, data: typeof object === 'string' ? object : JSON.stringify(object), lastEventId: '1' })
  cache.flush()
}
const deleted = (id: string) => ({ id, deleted: true })
const read = (key: QueryKey): unknown => client.getQueryData(key)

describe('an event', () => {
  it.each<[string, QueryKey, readonly object[], readonly [string, unknown], readonly object[]]>([
    [
      'replaces a node that changed',
      ['nodes'],
      [node('a'), node('b')],
      ['node', node('a', { in_flight: 3 })],
      [node('a', { in_flight: 3 }), node('b')],
    ],
    ['adds a new node in the order of names', ['nodes'], [node('a'), node('c')], ['node', node('b')], [node('a'), node('b'), node('c')]],
    ['removes a deleted node', ['nodes'], [node('a'), node('b')], ['node', deleted('a')], [node('b')]],
    ['ignores a deleted node that is not cached', ['nodes'], [node('a')], ['node', deleted('b')], [node('a')]],
    ['replaces a backend', ['backends'], [backend('a'), backend('b')], ['backend', backend('b', true)], [backend('a'), backend('b', true)]],
    ['removes a deleted backend', ['backends'], [backend('a'), backend('b')], ['backend', deleted('b')], [backend('a')]],
    ['replaces a model', ['models'], [model('a')], ['model', model('a', 'failed')], [model('a', 'failed')]],
    ['adds a new model', ['models'], [model('b')], ['model', model('a')], [model('a'), model('b')]],
    ['removes a deleted model', ['models'], [model('a')], ['model', deleted('a')], []],
    ['of an unknown kind is ignored', ['nodes'], [node('a')], ['weather', node('a', { in_flight: 9 })], [node('a')]],
    ['that is not JSON is ignored', ['nodes'], [node('a')], ['node', '{"id":'], [node('a')]],
    ['that does not match its schema is ignored', ['nodes'], [node('a')], ['node', { id: 'a', name: 7 }], [node('a')]],
  ])('%s', (...[, key, before, event, after]) => {
    client.setQueryData(key, before)
    receive(event)
    expect(read(key)).toEqual(after)
  })

  it('that is invalid does not affect the others of its burst', () => {
    client.setQueryData(['nodes'], [node('a'), node('b')])
    receive(['node', 'nonsense'], ['node', node('b', { in_flight: 1 })])
    expect(read(['nodes'])).toEqual([node('a'), node('b', { in_flight: 1 })])
  })

  it('does not create a list that was never read', () => {
    receive(['node', node('a')], ['backend', backend('a')], ['operation', operation('a', 'running')], ['stats', { at: '', buckets: [] }])
    for (const key of [['nodes'], ['backends'], ['operations', 'active'], ['stats']]) expect(read(key)).toBeUndefined()
  })

  it('moves an operation that ended from the active to the finished ones', () => {
    client.setQueryData(['operations', 'active'], [operation('bb', 'running'), operation('a', 'background')])
    client.setQueryData(['operations', 'finished'], [operation('ccc', 'failed')])
    client.setQueryData(['operations', 'all'], [operation('ccc', 'failed'), operation('bb', 'running'), operation('a', 'background')])
    client.setQueryData(['operation', 'bb'], operation('bb', 'running'))
    const ended = operation('bb', 'succeeded')
    receive(['operation', ended])
    expect(read(['operations', 'active'])).toEqual([operation('a', 'background')])
    expect(read(['operations', 'finished'])).toEqual([operation('ccc', 'failed'), ended])
    expect(read(['operations', 'all'])).toEqual([operation('ccc', 'failed'), ended, operation('a', 'background')])
    expect(read(['operation', 'bb'])).toEqual(ended)
  })

  it('moves a retried operation back to the active ones, newest first', () => {
    client.setQueryData(['operations', 'active'], [operation('a', 'running')])
    client.setQueryData(['operations', 'finished'], [operation('bb', 'failed')])
    receive(['operation', operation('bb', 'running')])
    expect(read(['operations', 'active'])).toEqual([operation('bb', 'running'), operation('a', 'running')])
    expect(read(['operations', 'finished'])).toEqual([])
  })

  it('adds a replica to the lists of its model and its node only', () => {
    for (const key of [
      ['model', 'chat', 'replicas'],
      ['model', 'embed', 'replicas'],
      ['node', 'one', 'replicas'],
      ['node', 'two', 'replicas'],
    ])
      client.setQueryData(key, [])
    const made = replica('r')
    receive(['replica', made])
    expect(read(['model', 'chat', 'replicas'])).toEqual([made])
    expect(read(['node', 'one', 'replicas'])).toEqual([made])
    expect(read(['model', 'embed', 'replicas'])).toEqual([])
    expect(read(['node', 'two', 'replicas'])).toEqual([])
    receive(['replica', deleted('r')])
    expect(read(['model', 'chat', 'replicas'])).toEqual([])
    expect(read(['node', 'one', 'replicas'])).toEqual([])
  })

  it('keeps the stats of the last hour, with the latest version of each bucket', () => {
    const [long, before, at] = ['2026-01-01T10:00:00Z', '2026-01-01T11:00:00Z', '2026-01-01T11:00:10Z']
    client.setQueryData(['stats'], [bucket(long, 1), bucket(before, 2)])
    receive(['stats', { at: before, buckets: [bucket(before, 3)] }], ['stats', { at, buckets: [bucket(at, 4)] }])
    expect(read(['stats'])).toEqual([bucket(before, 3), bucket(at, 4)])
  })
})

describe('a burst', () => {
  it('is one cache update with the latest version of each object', () => {
    client.setQueryData(['nodes'], [node('a'), node('b')])
    let changes = 0
    client.getQueryCache().subscribe(({ type }) => (changes += type === 'updated' ? 1 : 0))
    for (let round = 1; round <= 50; round += 1)
      for (const id of ['a', 'b']) cache.add({ type: 'node', data: JSON.stringify(node(id, { in_flight: round })), lastEventId: '1' })
    expect([changes, cache.isEmpty]).toEqual([0, false])
    cache.flush()
    expect([changes, cache.isEmpty]).toEqual([1, true])
    expect(read(['nodes'])).toEqual([node('a', { in_flight: 50 }), node('b', { in_flight: 50 })])
  })

  it('that deletes an object and creates it again keeps it', () => {
    client.setQueryData(['models'], [model('a', 'failed')])
    receive(['model', deleted('a')], ['model', model('a')])
    expect(read(['models'])).toEqual([model('a')])
  })
})

describe('a response that was pending', () => {
  const slow = (key: QueryKey) => {
    const answer = Promise.withResolvers<readonly object[]>()
    const done = client.fetchQuery({ queryKey: key, queryFn: () => answer.promise, staleTime: 0 })
    return async (list: readonly object[]): Promise<void> => {
      answer.resolve(list)
      await done
      await Promise.resolve()
    }
  }

  it('does not undo a change of an event that arrived meanwhile', async () => {
    const arrive = slow(['nodes'])
    now += 10
    receive(['node', node('a', { in_flight: 7 })], ['node', deleted('b')], ['node', node('c')])
    await arrive([node('a'), node('b')])
    expect(read(['nodes'])).toEqual([node('a', { in_flight: 7 }), node('c')])
  })

  it('wins over events that arrived before it was requested', async () => {
    receive(['node', node('a', { in_flight: 7 })])
    now += 10
    const arrive = slow(['nodes'])
    await arrive([node('a', { in_flight: 8 })])
    expect(read(['nodes'])).toEqual([node('a', { in_flight: 8 })])
  })

  it('does not bring back an operation that ended', async () => {
    const arrive = slow(['operations', 'active'])
    now += 10
    receive(['operation', operation('a', 'succeeded')])
    await arrive([operation('a', 'running')])
    expect(read(['operations', 'active'])).toEqual([])
  })
})

describe('a derived list', () => {
  /** Observes the query; returns how often it was read. */
  const watch = async (key: QueryKey): Promise<() => number> => {
    let times = 0
    const observer = new QueryObserver(client, { queryKey: key, queryFn: () => Promise.resolve((times += 1)) })
    observer.subscribe(() => undefined)
    await observer.refetch()
    return () => times
  }

  it.each<[string, QueryKey, readonly [string, unknown]]>([
    ['upgrades when a backend changed', ['upgrades'], ['backend', backend('llama')]],
    ['the gallery when a backend changed', ['gallery', 'backends'], ['backend', backend('llama')]],
    ['the backends of a node when a backend changed', ['node', 'one', 'backends'], ['backend', backend('llama')]],
    ['the placement of a model that changed', ['model', 'chat', 'placement'], ['model', model('chat')]],
    ['the intents of a node whose status changed', ['node', 'one', 'intents'], ['node', node('one', { status: 'offline' })]],
    [
      'the intents of a node of a changed operation',
      ['node', 'one', 'intents'],
      ['operation', operation('a', 'running', { nodes: [operationNode('one')] })],
    ],
    ['the status when a node changed its status', ['status'], ['node', node('one', { status: 'offline' })]],
  ])('%s: is read again', async (_, key, event) => {
    client.setQueryData(['nodes'], [node('one')])
    const times = await watch(key)
    expect(times()).toBe(1)
    receive(event)
    await expect.poll(times).toBe(2)
  })

  it('is not read again after a heartbeat', async () => {
    client.setQueryData(['nodes'], [node('one')])
    const all = await Promise.all([watch(['node', 'one', 'intents']), watch(['status']), watch(['upgrades'])])
    receive(['node', node('one', { in_flight: 1 })])
    await new Promise((resolve) => setTimeout(resolve, 0))
    expect(all.map((times) => times())).toEqual([1, 1, 1])
  })

  it('is read again after a gap in the events', async () => {
    const all = await Promise.all([watch(['nodes']), watch(['keys']), watch(['gallery', 'models'])])
    cache.invalidateAll()
    await expect.poll(() => all.map((times) => times())).toEqual([2, 2, 2])
  })
})

function operationNode(id: string) {
  return {
    ...{ node_id: id, node_name: id, status: 'queued', phase: null, message: '', file_name: '', current: 0, total: 0, percentage: 0 },
    ...{ attempts: 0, next_retry_at: null, dead: false, ring: null, error: null, error_code: null },
  }
}
