// Placement on a real database: facts about nodes, and resources booked by replicas.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Digest, Incarnation, InstalledBackend, ModelConfig, ModelName, type NodeId, StoredFacts } from '@muster/protocol'
import { parseGallery } from '@muster/source'
import { sql } from 'kysely'
import { startLoadsWorld, type LoadsWorld } from '../../test/loads-world.ts'
import { needOf } from './memory.pure.ts'
import { createPlacer, type PlacerDeps, type PlacementRequest } from './placer.ts'
import type { Booking } from '../store/placement.ts'
import type { Exclusion } from './placement.pure.ts'

let world: LoadsWorld
beforeAll(async () => {
  world = await startLoadsWorld()
})
afterEach(() => world.clear())
afterAll(() => world[Symbol.asyncDispose]())

const gb = 1e9
const shaOf = (letter: string): string => letter.repeat(64)
const fileOf = (letter: string) => ({ uri: `https://example.com/${letter}`, filename: `${letter}.gguf`, sha256: shaOf(letter) })
const config = (name: string, more: Readonly<Record<string, unknown>> = {}): ModelConfig =>
  ModelConfig.parse({ name, backend: 'llama', files: [fileOf(name)], ...more })

async function place(over: Partial<PlacementRequest> & { config: ModelConfig }, deps: Partial<PlacerDeps> = {}) {
  const placing = createPlacer({
    placement: world.store.placement,
    catalogue: async () => ({ galleries: [], problems: [] }),
    inFlight: () => 0,
    ...deps,
  })
  return await placing({ purpose: 'serve', avoid: null, pin: null, ...over })
}

const setResources = (id: NodeId, resources: object) =>
  sql`update node_pulses set resources = ${JSON.stringify(resources)}::jsonb, reported_at = now() where node_id = ${id}`.execute(world.db)
const setFiles = (id: NodeId, sizes: Readonly<Record<string, number>>) => {
  const files = Object.entries(sizes).map(([letter, size]) => ({ digest: `sha256:${shaOf(letter)}`, size }))
  return sql`update nodes set files = ${JSON.stringify(files)}::jsonb where id = ${id}`.execute(world.db)
}

type ReplicaFixture = Readonly<{
  id: string
  model: string
  node: NodeId
  state?: 'starting' | 'ready' | 'exited'
  idleMs?: number
  revision?: string
}>
/** A replica with its model and load, as controllers leave them behind. */
async function addReplica(
  { id, model, node, state = 'ready', idleMs = 60_000, revision = 'rev-1' }: ReplicaFixture,
  more: object = {},
): Promise<void> {
  await world.addModel(model, { files: [fileOf(model)], ...more })
  const since = sql`now() - make_interval(secs => ${idleMs / 1000})`
  await sql`update models set used_at = ${since}, requested_replicas = 1 where name = ${model}`.execute(world.db)
  await sql`
    insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, ready_at, exited_at)
    values (${id}, ${model}, ${revision}, 0, ${node}, 'llama', ${JSON.stringify(config(model))}::jsonb, ${state},
      case when ${state}::text <> 'starting' then ${since} end, case when ${state}::text = 'exited' then now() end)`.execute(world.db)
  if (state === 'exited') return
  await sql`
    insert into loads (model, purpose, ordinal, revision, state, node_id, op_id, replica_id, epoch, sign_at, next_at)
    values (${model}, 'serve', 0, 'rev-1', ${state}, ${node}, ${`op-${id}`}, ${id}, 1, now(), case when ${state}::text = 'starting' then now() end)`.execute(
    world.db,
  )
}

const tinyFacts = { architecture: 'llama', layers: 4, embedding: 160, heads: 5, kv_heads: 5, context: 512, vocabulary: 960, reader: 1 }
const factsOf = (letter: string, bytes: number): StoredFacts =>
  StoredFacts.parse({
    digest: `sha256:${shaOf(letter)}`,
    facts: { ...tinyFacts, tensors: { count: 38, bytes, layer_bytes: bytes, input_bytes: 0 } },
  })
/** The node reports its files, as its worker does. */
async function report(id: NodeId, list: Partial<Parameters<typeof world.store.inventory.recordAnswer>[1]>): Promise<void> {
  const node = await world.store.nodes.find(id)
  const requestedAt = await world.store.inventory.now()
  const backends = [InstalledBackend.parse({ name: 'llama' })]
  await world.store.inventory.recordAnswer({ id, incarnation: node?.incarnation ?? null, requestedAt }, { ...list, backends })
}
const stored = (letter: string, size: number) => ({ digest: Digest.parse(`sha256:${shaOf(letter)}`), size })

describe('memory by headers', () => {
  it('is booked for context and slots once a worker has reported the header', async () => {
    const { id } = await world.addWorker('one')
    await setResources(id, { total_ram: 2 * gb })
    const wanted = config('b', { context_size: 65_536, options: { parallel: 8 } })
    await report(id, { files: [stored('b', 3e6)] })
    expect((await place({ config: wanted })).model.memory).toMatchObject({ basis: 'size', cpu: { ram: needOf([3e6]) } })
    await report(id, { files: [stored('b', 3e6)], file_facts: [factsOf('b', 3e6), factsOf('c', 1)] })
    const { model, placement } = await place({ config: wanted })
    expect(model.memory).toMatchObject({ basis: 'gguf', estimate: { weights: 3e6, kvCache: 65_536 * 8 * (2_560 + 64) } })
    expect(placement.nodes[0]).toMatchObject({ eligible: true })
    await addReplica({ id: 'r-b', model: 'b', node: id }, { context_size: 65_536, options: { parallel: 8 } })
    await sql`update replicas set config = ${JSON.stringify(wanted)}::jsonb`.execute(world.db)
    expect((await place({ config: wanted })).placement.nodes[0]).toMatchObject({ excludedBy: 'memory' })
    // A node describes only files that it lists.
    expect((await place({ config: config('c') })).model.memory.basis).toBe('unknown')
  })

  it('is booked for a file without a hash, by model and name, and ends with the model', async () => {
    const { id } = await world.addWorker('one')
    await setResources(id, { total_ram: 2 * gb })
    await world.addModel('open', { files: [] })
    const [fetched] = [stored('d', 3e6)]
    const named = [{ model: ModelName.parse('open'), filename: 'd.gguf', ...fetched }]
    const unhashed = config('open', { files: [{ uri: 'https://example.com/d', filename: 'd.gguf' }] })
    expect((await place({ config: unhashed })).model.memory.basis).toBe('unknown')
    await report(id, { files: [fetched], file_facts: [factsOf('d', 3e6)], named_files: named })
    const { model, candidates } = await place({ config: unhashed })
    expect(model).toMatchObject({ memory: { basis: 'gguf' }, files: [{ digest: fetched.digest, size: 3e6 }] })
    expect(candidates[0]?.files).toEqual(new Set([fetched.digest]))
    await sql`delete from models where name = 'open'`.execute(world.db)
    expect((await place({ config: unhashed })).model.memory.basis).toBe('unknown')
  })

  it('of a node that is not approved, or of another process, is not recorded', async () => {
    const { id } = await world.addWorker('one')
    const requestedAt = await world.store.inventory.now()
    const list = { backends: [], files: [stored('e', 3e6)], file_facts: [factsOf('e', 3e6)] }
    await world.store.inventory.recordAnswer({ id, incarnation: 'another', requestedAt }, list)
    expect((await place({ config: config('e') })).model.memory.basis).toBe('unknown')
  })

  it('read from a source never replaces what a worker read', async () => {
    const { id } = await world.addWorker('one')
    const remote = {
      model: ModelName.parse('b'),
      filename: 'b.gguf',
      digest: stored('b', 1).digest,
      size: 9e6,
      facts: factsOf('b', 9e6).facts,
    }
    await world.store.fileContents.recordRemote(remote)
    expect((await place({ config: config('b') })).model.memory.estimate?.weights).toBe(9e6)
    await report(id, { files: [stored('b', 3e6)], file_facts: [factsOf('b', 3e6)] })
    await world.store.fileContents.recordRemote(remote)
    expect((await place({ config: config('b') })).model.memory.estimate?.weights).toBe(3e6)
    await world.store.fileContents.prune({ keep: 1 })
    expect((await place({ config: config('b') })).model.memory.basis).toBe('gguf')
    await world.store.fileContents.prune({ keep: 0 })
    expect((await place({ config: config('b') })).model.memory.basis).toBe('size')
  })
})

describe('the kind of memory', () => {
  const gpus = [
    { index: 0, uuid: 'GPU-a', name: 'A', vendor: 'nvidia', total: 8 * gb, free: 8 * gb },
    { index: 1, uuid: 'GPU-b', name: 'B', vendor: 'nvidia', total: 24 * gb, free: 24 * gb },
  ]
  const machine = { total_ram: 64 * gb, available_ram: 64 * gb, total_vram: 32 * gb, available_vram: 32 * gb, gpu_vendor: 'nvidia', gpus }
  const gpuNode = async (uri = 'oci://example.com/llama:gpu-nvidia-cuda-12'): Promise<NodeId> => {
    const { id } = await world.addWorker('gpu')
    await sql`update nodes set capability = 'nvidia-cuda-12', inventory = ${JSON.stringify([{ name: 'llama', uri }])}::jsonb where id = ${id}`.execute(
      world.db,
    )
    await setResources(id, machine)
    await setFiles(id, { a: 10 * gb, b: 10 * gb })
    return id
  }

  it.each<[string, string | undefined, Readonly<Record<string, unknown>>, Booking]>([
    ['that of the GPU, on the card that holds it, with a build for GPUs', undefined, {}, { device: 'gpu', card: 'GPU-b' }],
    ['RAM with a build for the processor', 'oci://example.com/llama:cpu', {}, { device: 'cpu', card: null }],
    ['RAM with a built-in backend', `builtin://llama@sha256:${shaOf('0')}`, {}, { device: 'cpu', card: null }],
    ['RAM when no layer is to be on a GPU', undefined, { options: { gpu_layers: 0 } }, { device: 'cpu', card: null }],
  ])('of a replica on a node with GPUs is %s', async (_, uri, more, booking) => {
    const id = await gpuNode(uri)
    const { candidates, bookingOn, model } = await place({ config: config('b', more) })
    const { device } = booking
    expect(candidates[0]).toMatchObject({ device })
    expect(bookingOn(id)).toEqual(booking)
    expect(model.memory[device]).toMatchObject(device === 'gpu' ? { ram: 0 } : { vram: 0 })
  })

  it('of a running replica is where it was booked, on its card', async () => {
    const id = await gpuNode()
    await addReplica({ id: 'r-a', model: 'a', node: id })
    await sql`update replicas set booking = '{"device":"gpu","card":"GPU-b"}'`.execute(world.db)
    const beside = await place({ config: config('b') })
    expect(beside.candidates[0]?.replicas).toMatchObject([{ card: 'GPU-b', need: { ram: 0, vram: needOf([10 * gb]) } }])
    expect(beside.bookingOn(id)).toEqual({ device: 'gpu', card: 'GPU-b' })
    await sql`update replicas set booking = '{"device":"cpu","card":null}'`.execute(world.db)
    expect((await place({ config: config('b') })).candidates[0]?.replicas).toMatchObject([{ card: null, need: { vram: 0 } }])
  })
})

describe('memory', () => {
  it('W19 is booked by rows: no heartbeat frees it', async () => {
    const { id } = await world.addWorker('one')
    await setFiles(id, { a: 2 * gb, b: 2 * gb })
    await addReplica({ id: 'r-a', model: 'a', node: id, state: 'starting' })
    for (const available_ram of [4 * gb, null]) {
      await setResources(id, { total_ram: 4 * gb, available_ram })
      const { placement, seen } = await place({ config: config('b') })
      expect(placement.nodes).toMatchObject([
        { eligible: false, excludedBy: 'memory', reason: 'it needs about 2.3 GB of memory, and 1.7 GB of 4 GB are free' },
      ])
      expect(seen).toEqual(new Map([[id, ['r-a']]]))
    }
    await setResources(id, { total_ram: 5 * gb, available_ram: 5 * gb })
    expect((await place({ config: config('b') })).placement.nodes[0]?.eligible).toBe(true)
  })

  it('is that of the GPU if there is one, within its budget', async () => {
    const { id } = await world.addWorker('gpu', { capability: 'nvidia-cuda-12' })
    await setFiles(id, { b: 2 * gb })
    await setResources(id, { total_ram: gb, total_vram: 8 * gb, available_vram: 8 * gb, gpu_vendor: 'nvidia' })
    expect((await place({ config: config('b') })).placement.nodes[0]?.eligible).toBe(true)
    await sql`update nodes set vram_budget = '2GB' where id = ${id}`.execute(world.db)
    const { placement } = await place({ config: config('b') })
    expect(placement.nodes[0]?.reason).toBe('it needs about 2.3 GB of GPU memory, and the node has 2 GB')
  })

  it('of a replica that just ended is not free before its node reports it, and no other replica is evicted meanwhile', async () => {
    const { id } = await world.addWorker('one')
    await setFiles(id, { a: 2 * gb, b: 2 * gb, c: gb })
    await addReplica({ id: 'r-a', model: 'a', node: id, state: 'exited' })
    await addReplica({ id: 'r-c', model: 'c', node: id })
    await setResources(id, { total_ram: 4 * gb, available_ram: 1.5 * gb })
    const { placement, seen } = await place({ config: config('b') })
    expect(placement).toMatchObject({ nodes: [{ excludedBy: 'memory' }], eviction: { nodeId: id, victims: [] } })
    expect(seen.get(id)).toEqual(['r-c'])
    await sql`update node_pulses set reported_at = now() + interval '31 seconds'`.execute(world.db)
    expect((await place({ config: config('b') })).placement.eviction).toEqual({ nodeId: id, victims: ['r-c'] })
    await setResources(id, { total_ram: 4 * gb, available_ram: 2.5 * gb })
    expect((await place({ config: config('b') })).placement.nodes[0]).toMatchObject({ eligible: true })
  })

  it('of a replica that ended is not counted twice', async () => {
    const { id } = await world.addWorker('one')
    await setFiles(id, { a: 2 * gb, b: 4 * gb })
    await addReplica({ id: 'r-a', model: 'a', node: id, state: 'exited' })
    // Its memory is already part of the available memory.
    await setResources(id, { total_ram: 8 * gb, available_ram: 3 * gb })
    expect((await place({ config: config('b') })).placement.nodes[0]).toMatchObject({ excludedBy: 'memory' })
  })

  it('of a replica that just started is taken, although its node has not reported it', async () => {
    const { id } = await world.addWorker('one')
    await setFiles(id, { a: 2 * gb, b: 2 * gb })
    await addReplica({ id: 'r-a', model: 'a', node: id, idleMs: 5_000 })
    await setResources(id, { total_ram: 8 * gb, available_ram: 4 * gb })
    await sql`update node_pulses set reported_at = now() - interval '10 seconds'`.execute(world.db)
    // It waits for the next report instead of evicting.
    const important = config('b', { scheduling: { priority: 5 } })
    const { placement } = await place({ config: important })
    expect(placement).toMatchObject({ nodes: [{ excludedBy: 'memory' }], eviction: { nodeId: id, victims: [] } })
    await sql`update node_pulses set reported_at = now()`.execute(world.db)
    expect((await place({ config: config('b') })).placement.nodes[0]).toMatchObject({ eligible: true })
  })

  it('is that of the last report: a heartbeat without resources does not refresh it', async () => {
    const { id } = await world.addWorker('one')
    const reportedAt = async () =>
      (await world.db.selectFrom('node_pulses').select('reported_at').where('node_id', '=', id).executeTakeFirst())?.reported_at
    const before = await reportedAt()
    const beat = { node_id: id, incarnation: Incarnation.parse('i-1'), in_flight: 0 }
    await world.store.pulses.recordBeats([{ via: 'bus', ageMs: 0, heartbeat: { ...beat, seq: 100, resources: null } }])
    expect(await reportedAt()).toBe(before)
    await world.store.pulses.recordBeats([{ via: 'bus', ageMs: 0, heartbeat: { ...beat, seq: 101, resources: '{}' } }])
    expect(await reportedAt()).not.toBe(before)
  })

  it('W18 is freed by idle replicas, and never by a minimum', async () => {
    const { id } = await world.addWorker('one')
    await setFiles(id, { a: 2 * gb, b: 2 * gb })
    await setResources(id, { total_ram: 4 * gb })
    await addReplica({ id: 'r-a', model: 'a', node: id })
    expect((await place({ config: config('b') })).placement.eviction).toEqual({ nodeId: id, victims: ['r-a'] })
    expect((await place({ config: config('b') }, { inFlight: () => 1 })).placement.eviction).toBeNull()
    const refused: ReadonlySet<Exclusion>[] = []
    await world.addModel('a', { scheduling: { min_replicas: 1 } })
    const important = config('b', { scheduling: { priority: 5 } })
    expect((await place({ config: important }, { onRefused: (by) => refused.push(by) })).placement.eviction).toBeNull()
    expect(refused).toEqual([new Set(['memory'])])
    await world.addModel('a', { scheduling: { priority: 6 } })
    expect((await place({ config: important })).placement.eviction).toBeNull()
  })
})

describe('disk', () => {
  it('must fit the missing files, and those that starting replicas still have to fetch', async () => {
    const [{ id }, { id: holder }] = [await world.addWorker('one'), await world.addWorker('two', { backends: [] })]
    await setFiles(holder, { a: 3 * gb, b: 2 * gb })
    await setResources(id, { available_disk: 4 * gb })
    expect((await place({ config: config('b') })).placement.nodes[0]).toMatchObject({ node_id: id, eligible: true })
    await addReplica({ id: 'r-a', model: 'a', node: id, state: 'starting' })
    const refusal = async () => (await place({ config: config('b') })).placement.nodes.find(({ node_id: each }) => each === id)
    expect((await refusal())?.reason).toBe(
      'its files need 2 GB on disk, and 1 GB are free, when 3 GB are kept for replicas that are starting there',
    )
    await sql`update loads set current_bytes = ${2 * gb}`.execute(world.db)
    expect((await refusal())?.eligible).toBe(true)
  })

  it('must fit the backend, by its size on a node of the same kind', async () => {
    const [{ id: has }, { id }] = [await world.addWorker('one'), await world.addWorker('two', { backends: [] })]
    await setResources(id, { available_disk: gb })
    await sql`
      insert into intents (node_id, backend, kind, generation, op_id, plan, state, finished_at)
      values (${has}, 'llama', 'install', 1, 'op-1', ${JSON.stringify({ sizeBytes: 2 * gb })}::jsonb, 'applied', now())`.execute(world.db)
    const parsed = parseGallery('- {name: llama, uri: "registry.example.com/llama:1"}')
    const catalogue = async () => ({ galleries: [{ name: 'main', url: '', ...parsed }], problems: [] })
    const { placement } = await place({ config: config('b') }, { catalogue })
    expect(placement.nodes).toMatchObject([
      { node_id: has, eligible: true },
      { node_id: id, excludedBy: 'disk', reason: 'its files and the backend llama need 2 GB on disk, and 1 GB are free' },
    ])
  })
})

it('a node with a finished install has the backend before its inventory lists it', async () => {
  const { id } = await world.addWorker('one', { backends: [] })
  await expect(place({ config: config('b') })).rejects.toThrow(/no gallery offers llama/)
  await sql`
    insert into intents (node_id, backend, kind, generation, op_id, plan, state, finished_at)
    values (${id}, 'llama', 'install', 1, 'op-1', '{}', 'applied', now() + interval '1 second')`.execute(world.db)
  expect((await place({ config: config('b') })).placement.nodes).toMatchObject([{ eligible: true, hasBackend: true }])
})

it('a node whose backend is damaged gets it installed again; without a source the load waits for the repair', async () => {
  const { id } = await world.addWorker('one', { backends: [] })
  const listed = JSON.stringify([{ name: 'llama', damaged: true }])
  await sql`update nodes set inventory = ${listed}::jsonb where id = ${id}`.execute(world.db)
  const reason = expect.stringMatching(/llama is damaged there: .*no gallery offers llama/) as string
  expect((await place({ config: config('b') })).placement.nodes).toMatchObject([{ eligible: false, hasBackend: false, reason }])
  const parsed = parseGallery('- {name: llama, uri: "h/llama:1"}')
  const catalogue = async () => ({ galleries: [{ name: 'main', url: '', ...parsed }], problems: [] })
  expect((await place({ config: config('b') }, { catalogue })).placement.nodes).toMatchObject([{ eligible: true, hasBackend: false }])
  await sql`
    insert into intents (node_id, backend, kind, generation, op_id, plan, state, finished_at)
    values (${id}, 'llama', 'install', 1, 'op-1', '{}', 'applied', now() + interval '1 second')`.execute(world.db)
  expect((await place({ config: config('b') })).placement.nodes).toMatchObject([{ eligible: true, hasBackend: true }])
})

it('a gallery that cannot be read hides the backend of later ones: only nodes that have it are used', async () => {
  const failure = { code: 'unavailable', retry: 'backoff', message: 'first answers 503' } as const
  const parsed = parseGallery('- {name: llama, uri: "h/llama:1"}')
  const problems = [{ gallery: 'first', url: '', failure, precedes: 0, names: null }]
  const catalogue = async () => ({ galleries: [{ name: 'main', url: '', ...parsed }], problems })
  await world.addWorker('without', { backends: [] })
  await expect(place({ config: config('b') }, { catalogue })).rejects.toMatchObject({
    failure: {
      code: 'unavailable',
      retry: 'backoff',
      message: expect.stringMatching(/the gallery first .*before main.*first answers 503/) as string,
    },
  })
  await world.addWorker('with')
  expect((await place({ config: config('b') }, { catalogue })).placement.nodes).toMatchObject([
    { node_name: 'with', eligible: true },
    { node_name: 'without', eligible: false, reason: expect.stringMatching(/the gallery first/) as string },
  ])
})

it('the replica limit is the one that the worker reports', async () => {
  const { id } = await world.addWorker('one')
  await setResources(id, { max_replicas: 1 })
  await addReplica({ id: 'r-a', model: 'a', node: id, idleMs: 0 })
  const { placement } = await place({ config: config('b') })
  expect(placement).toMatchObject({ nodes: [{ excludedBy: 'places' }], eviction: null })
})

it('the limit per model is the lower one of the worker and the administrator', async () => {
  const { id } = await world.addWorker('one')
  await setResources(id, { max_replicas_per_model: 2 })
  await addReplica({ id: 'r-a', model: 'a', node: id })
  await sql`update replicas set revision = 'rev-1'`.execute(world.db)
  const more = config('a', { scheduling: { max_replicas: 3 } })
  expect((await place({ config: more })).placement.nodes[0]).toMatchObject({ eligible: true })
  await sql`update nodes set max_replicas_per_model = 1 where id = ${id}`.execute(world.db)
  expect((await place({ config: more })).placement.nodes[0]).toMatchObject({ excludedBy: 'per_model' })
})

it('`replicas: all` fits beside a replica of an old revision', async () => {
  const { id } = await world.addWorker('one')
  await addReplica({ id: 'r-a', model: 'a', node: id, revision: 'rev-0' })
  const all = config('a', { scheduling: { replicas: 'all' } })
  expect((await place({ config: all })).placement.nodes[0]).toMatchObject({ eligible: true })
  await sql`update replicas set revision = 'rev-1'`.execute(world.db)
  expect((await place({ config: all })).placement.nodes[0]).toMatchObject({ excludedBy: 'spread' })
})

it('W43 selectors match the effective labels of a node', async () => {
  await world.addWorker('one', { labels: { zone: 'a' } })
  await world.addWorker('two', { labels: { zone: 'b' } })
  const { placement } = await place({ config: config('b', { scheduling: { node_selector: { zone: '!a' } } }) })
  expect(placement.nodes).toMatchObject([
    { node_name: 'two', eligible: true },
    { node_name: 'one', excludedBy: 'selector', reason: 'its label zone is "a", and the node selector requires "!a"' },
  ])
})
