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
  ...{ at, model: 'chat', node_id: 'one', requests, errors: 0, prompt_tokens: 0, completion_tokens: 0, in_flight: 0, duration_ms: 0 },
})

let client = createQueryClient()
let cache = new LiveCache(client)
let now = 0
beforeEach(() => {
  client = createQueryClient()
  now = 1_000
  cache = new LiveCache(client, () => now)
})

const tell = (...events: (readonly [type: string, object: unknown])[]): void => {
  for (const [type, object] of events)
    cache.take({ type, data: typeof object === 'string' ? object : JSON.stringify(object), lastEventId: '1' })
  cache.flush()
}
const gone = (id: string) => ({ id, deleted: true })
const read = (key: QueryKey): unknown => client.getQueryData(key)

describe('an event is put in its place', () => {
  it.each<[string, QueryKey, readonly object[], readonly [string, unknown], readonly object[]]>([
    [
      'a node that changed',
      ['nodes'],
      [node('a'), node('b')],
      ['node', node('a', { in_flight: 3 })],
      [node('a', { in_flight: 3 }), node('b')],
    ],
    ['a new node, by its name', ['nodes'], [node('a'), node('c')], ['node', node('b')], [node('a'), node('b'), node('c')]],
    ['a node that is gone', ['nodes'], [node('a'), node('b')], ['node', gone('a')], [node('b')]],
    ['a node that is gone and was not known', ['nodes'], [node('a')], ['node', gone('b')], [node('a')]],
    ['a backend', ['backends'], [backend('a'), backend('b')], ['backend', backend('b', true)], [backend('a'), backend('b', true)]],
    ['a backend that is gone', ['backends'], [backend('a'), backend('b')], ['backend', gone('b')], [backend('a')]],
    ['a model', ['models'], [model('a')], ['model', model('a', 'failed')], [model('a', 'failed')]],
    ['a new model', ['models'], [model('b')], ['model', model('a')], [model('a'), model('b')]],
    ['a model that is gone', ['models'], [model('a')], ['model', gone('a')], []],
    ['an event of a kind that nobody knows', ['nodes'], [node('a')], ['weather', node('a', { in_flight: 9 })], [node('a')]],
    ['an event that is no JSON', ['nodes'], [node('a')], ['node', '{"id":'], [node('a')]],
    ['an event that is no such object', ['nodes'], [node('a')], ['node', { id: 'a', name: 7 }], [node('a')]],
  ])('%s', (...[, key, before, event, after]) => {
    client.setQueryData(key, before)
    tell(event)
    expect(read(key)).toEqual(after)
  })

  it('one bad event does not spoil the others of its burst', () => {
    client.setQueryData(['nodes'], [node('a'), node('b')])
    tell(['node', 'nonsense'], ['node', node('b', { in_flight: 1 })])
    expect(read(['nodes'])).toEqual([node('a'), node('b', { in_flight: 1 })])
  })

  it('what nobody has read stays unread: a list of one would be a lie', () => {
    tell(['node', node('a')], ['backend', backend('a')], ['operation', operation('a', 'running')], ['stats', { at: '', buckets: [] }])
    for (const key of [['nodes'], ['backends'], ['operations', 'active'], ['stats']]) expect(read(key)).toBeUndefined()
  })

  it('an operation that ends moves from the active to the finished', () => {
    client.setQueryData(['operations', 'active'], [operation('bb', 'running'), operation('a', 'background')])
    client.setQueryData(['operations', 'finished'], [operation('ccc', 'failed')])
    client.setQueryData(['operations', 'all'], [operation('ccc', 'failed'), operation('bb', 'running'), operation('a', 'background')])
    client.setQueryData(['operation', 'bb'], operation('bb', 'running'))
    const ended = operation('bb', 'succeeded')
    tell(['operation', ended])
    expect(read(['operations', 'active'])).toEqual([operation('a', 'background')])
    expect(read(['operations', 'finished'])).toEqual([operation('ccc', 'failed'), ended])
    expect(read(['operations', 'all'])).toEqual([operation('ccc', 'failed'), ended, operation('a', 'background')])
    expect(read(['operation', 'bb'])).toEqual(ended)
  })

  it('an operation that is tried again is active again, the newest first', () => {
    client.setQueryData(['operations', 'active'], [operation('a', 'running')])
    client.setQueryData(['operations', 'finished'], [operation('bb', 'failed')])
    tell(['operation', operation('bb', 'running')])
    expect(read(['operations', 'active'])).toEqual([operation('bb', 'running'), operation('a', 'running')])
    expect(read(['operations', 'finished'])).toEqual([])
  })

  it('a replica is in the list of its model and in that of its node, and in no other', () => {
    for (const key of [
      ['model', 'chat', 'replicas'],
      ['model', 'embed', 'replicas'],
      ['node', 'one', 'replicas'],
      ['node', 'two', 'replicas'],
    ])
      client.setQueryData(key, [])
    const made = replica('r')
    tell(['replica', made])
    expect(read(['model', 'chat', 'replicas'])).toEqual([made])
    expect(read(['node', 'one', 'replicas'])).toEqual([made])
    expect(read(['model', 'embed', 'replicas'])).toEqual([])
    expect(read(['node', 'two', 'replicas'])).toEqual([])
    tell(['replica', gone('r')])
    expect(read(['model', 'chat', 'replicas'])).toEqual([])
    expect(read(['node', 'one', 'replicas'])).toEqual([])
  })

  it('stats are those of the last hour, each bucket as it was told last', () => {
    const [long, before, at] = ['2026-01-01T10:00:00Z', '2026-01-01T11:00:00Z', '2026-01-01T11:00:10Z']
    client.setQueryData(['stats'], [bucket(long, 1), bucket(before, 2)])
    tell(['stats', { at: before, buckets: [bucket(before, 3)] }], ['stats', { at, buckets: [bucket(at, 4)] }])
    expect(read(['stats'])).toEqual([bucket(before, 3), bucket(at, 4)])
  })
})

describe('a burst', () => {
  it('is one change, with the last word about each object', () => {
    client.setQueryData(['nodes'], [node('a'), node('b')])
    let changes = 0
    client.getQueryCache().subscribe(({ type }) => (changes += type === 'updated' ? 1 : 0))
    for (let round = 1; round <= 50; round += 1)
      for (const id of ['a', 'b']) cache.take({ type: 'node', data: JSON.stringify(node(id, { in_flight: round })), lastEventId: '1' })
    expect([changes, cache.isEmpty]).toEqual([0, false])
    cache.flush()
    expect([changes, cache.isEmpty]).toEqual([1, true])
    expect(read(['nodes'])).toEqual([node('a', { in_flight: 50 }), node('b', { in_flight: 50 })])
  })

  it('that removes an object and makes it again leaves it there', () => {
    client.setQueryData(['models'], [model('a', 'failed')])
    tell(['model', gone('a')], ['model', model('a')])
    expect(read(['models'])).toEqual([model('a')])
  })
})

describe('an answer that was on its way', () => {
  const slow = (key: QueryKey) => {
    const answer = Promise.withResolvers<readonly object[]>()
    const done = client.fetchQuery({ queryKey: key, queryFn: () => answer.promise, staleTime: 0 })
    return async (list: readonly object[]): Promise<void> => {
      answer.resolve(list)
      await done
      await Promise.resolve()
    }
  }

  it('does not bring back what an event has changed meanwhile', async () => {
    const arrive = slow(['nodes'])
    now += 10
    tell(['node', node('a', { in_flight: 7 })], ['node', gone('b')], ['node', node('c')])
    await arrive([node('a'), node('b')])
    expect(read(['nodes'])).toEqual([node('a', { in_flight: 7 }), node('c')])
  })

  it('is right about everything that came before it was asked for', async () => {
    tell(['node', node('a', { in_flight: 7 })])
    now += 10
    const arrive = slow(['nodes'])
    await arrive([node('a', { in_flight: 8 })])
    expect(read(['nodes'])).toEqual([node('a', { in_flight: 8 })])
  })

  it('does not bring back an operation that has ended', async () => {
    const arrive = slow(['operations', 'active'])
    now += 10
    tell(['operation', operation('a', 'succeeded')])
    await arrive([operation('a', 'running')])
    expect(read(['operations', 'active'])).toEqual([])
  })
})

describe('what is derived of several objects', () => {
  /** Somebody looks at it. How often it was read. */
  const watch = async (key: QueryKey): Promise<() => number> => {
    let times = 0
    const observer = new QueryObserver(client, { queryKey: key, queryFn: () => Promise.resolve((times += 1)) })
    observer.subscribe(() => undefined)
    await observer.refetch()
    return () => times
  }

  it.each<[string, QueryKey, readonly [string, unknown]]>([
    ['upgrades, when a backend changed', ['upgrades'], ['backend', backend('llama')]],
    ['the gallery, when a backend changed', ['gallery', 'backends'], ['backend', backend('llama')]],
    ['the backends of a node, when a backend changed', ['node', 'one', 'backends'], ['backend', backend('llama')]],
    ['the placement of a model that changed', ['model', 'chat', 'placement'], ['model', model('chat')]],
    ['the wishes of a node whose status changed', ['node', 'one', 'intents'], ['node', node('one', { status: 'offline' })]],
    [
      'the wishes of a node that an operation is about',
      ['node', 'one', 'intents'],
      ['operation', operation('a', 'running', { nodes: [operationNode('one')] })],
    ],
    ['the state of the fleet, when a node turned', ['status'], ['node', node('one', { status: 'offline' })]],
  ])('%s, is read again', async (_, key, event) => {
    client.setQueryData(['nodes'], [node('one')])
    const times = await watch(key)
    expect(times()).toBe(1)
    tell(event)
    await expect.poll(times).toBe(2)
  })

  it('a heartbeat makes nobody read anything', async () => {
    client.setQueryData(['nodes'], [node('one')])
    const all = await Promise.all([watch(['node', 'one', 'intents']), watch(['status']), watch(['upgrades'])])
    tell(['node', node('one', { in_flight: 1 })])
    await new Promise((resolve) => setTimeout(resolve, 0))
    expect(all.map((times) => times())).toEqual([1, 1, 1])
  })

  it('all of it is read again when nobody knows what was missed', async () => {
    const all = await Promise.all([watch(['nodes']), watch(['keys']), watch(['gallery', 'models'])])
    cache.readAgain()
    await expect.poll(() => all.map((times) => times())).toEqual([2, 2, 2])
  })
})

function operationNode(id: string) {
  return {
    ...{ node_id: id, node_name: id, status: 'queued', phase: null, message: '', file_name: '', current: 0, total: 0, percentage: 0 },
    ...{ attempts: 0, next_retry_at: null, dead: false, ring: null, error: null, error_code: null },
  }
}
