// Rollouts by whole controllers: workers are reduced to the wire, and what serves is in the database. Processes of which
// nobody knows the version need not be moved, so that rings are a matter of commands and time alone.
import { backendList, backendUpgrade, OpStatusReply, opStatus, ReplicaId, type UpgradeBackend } from '@muster/protocol'
import { administer, waitFor } from '@muster/testkit'
import { afterEach, beforeEach, expect, inject, it } from 'vitest'
import { listed, startOperationsWorld, type OperationsWorld, type WireWorker } from '../operations/operations-world.ts'

const old = `sha256:${'1'.repeat(64)}`
let world: OperationsWorld
beforeEach(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2 })
})
afterEach(() => world[Symbol.asyncDispose]())

const query = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  await administer(world.database.url, async (client) => (await client.query<Record<string, unknown>>(text, values)).rows)

interface Node extends WireWorker {
  readonly name: string
  /** Digests that it was asked to have, one after the other. */
  readonly asked: string[]
}

/** Does what it is told at once, unless `refuses` says that it can't. */
async function addNode(name: string, refuses: (digest: string) => boolean = () => false): Promise<Node> {
  const worker = await world.addWireWorker(name)
  const asked: string[] = []
  const ended = new Map<string, OpStatusReply>()
  let backends = [listed('engine', old)]
  const carryOut = ({ op_id, generation, epoch, digest }: UpgradeBackend): void => {
    if (op_id === undefined || digest === undefined) throw new Error('controllers name the operation and the content')
    asked.push(digest)
    const about = { op_id, ...(generation === undefined ? {} : { generation }), ...(epoch === undefined ? {} : { epoch }) }
    const failure = { code: 'integrity' as const, retry: 'never' as const, message: 'it does not start' }
    const end = refuses(digest) ? { ...about, state: 'failed' as const, failure } : { ...about, state: 'succeeded' as const }
    ended.set(op_id, OpStatusReply.parse(end))
    if (end.state === 'succeeded') worker.say({ type: 'inventory', backends: (backends = [listed('engine', digest)]) })
    worker.say({ type: 'op.result', ...OpStatusReply.parse(end) })
  }
  worker.bus.serve(backendUpgrade, { node: worker.id }, (request) => {
    setImmediate(carryOut, request)
    return { accepted: true as const }
  })
  worker.bus.serve(opStatus, { node: worker.id }, ({ op_id }) => ended.get(op_id) ?? { op_id, state: 'unknown' as const })
  worker.bus.serve(backendList, { node: worker.id }, () => ({ backends }))
  worker.say({ type: 'inventory', backends })
  return { ...worker, name, asked }
}

/** A process of `tiny` on each of them, held by a load. */
async function serveOn(nodes: readonly Node[]): Promise<void> {
  const answer = await world.api().put('/api/models/tiny', { backend: 'engine', scheduling: { max_replicas: nodes.length } })
  expect(answer.status).toBe(201)
  for (const [ordinal, node] of nodes.entries()) {
    const id = `r-${node.name}`
    node.replicas.push({ replica_id: ReplicaId.parse(id), state: 'ready', in_flight: 0 })
    await query(
      `with m as (update models set requested_replicas = $1, used_at = now() where name = 'tiny' returning name, revision),
        r as (insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, ready_at, op_id, incarnation, seq)
          select $2, m.name, m.revision, $3, $4, 'engine', '{}', 'ready', now(), $2, $5, 0 from m)
      insert into loads (model, purpose, ordinal, revision, state, node_id, replica_id, op_id, sign_at)
      select m.name, 'serve', $3, m.revision, 'ready', $4, $2, $2, now() from m`,
      [ordinal + 1, id, ordinal, node.id, node.incarnation],
    )
  }
  await waitFor(async () => (await query(`select from nodes where inventory @> '[{"name":"engine"}]'`)).length === nodes.length, {
    what: 'all inventories',
  })
}
const rollout = { min_healthy_time: '300ms' }

it('S1.6 W9 S3.1 a rolling upgrade is shown beforehand, goes from ring to ring, and is counted', async () => {
  const nodes = [await addNode('a'), await addNode('b'), await addNode('c')]
  await serveOn(nodes)
  const digest = world.publish('engine', '2.0')
  const dry = await world.api(1).post('/api/backends/engine/upgrade', { rollout, dry_run: true })
  expect(dry).toMatchObject({ status: 200, body: { nodes: [{ ring: 1 }, { ring: 2, message: 'waiting for ring 2' }, { ring: 3 }] } })
  const id = await world.upgrade('engine', { rollout })
  expect(await world.ended(id)).toMatchObject({
    state: 'succeeded',
    nodes: nodes.map((_, index) => ({ ring: index + 1, status: 'success' })),
  })
  for (const { asked } of nodes) expect(asked).toEqual([digest])
  const times = await query(`select node_id from intent_events where type = 'succeeded' order by id`)
  expect(times.map((row) => row['node_id'])).toEqual(nodes.map((node) => node.id))
  const metrics = await Promise.all([0, 1].map(async (index) => (await world.api(index).get('/metrics')).text))
  expect(metrics.join('\n')).toContain('muster_rollouts_total{end="succeeded"} 1')
  expect(metrics[0]).toContain('muster_rollouts{state="running"} 0')
})

it('a ring that fails returns all nodes to their previous digest, and the operation names the node and the reason', async () => {
  const digest = world.publish('engine', '2.0')
  const nodes = [await addNode('a'), await addNode('b', (asked) => asked === digest), await addNode('c')]
  await serveOn(nodes)
  const id = await world.upgrade('engine', { rollout })
  const ended = await world.ended(id)
  expect(ended).toMatchObject({
    state: 'failed',
    nodes: [
      { status: 'error', error_code: 'rolled_back' },
      { status: 'error', error_code: 'integrity', error: 'it does not start' },
      { status: 'cancelled', message: 'rollout stopped' },
    ],
  })
  expect(ended.message).toContain('ring 2 failed on b: it does not start')
  expect(nodes.map(({ asked }) => asked)).toEqual([[digest, old], [digest], []])
})

it('a controller that ends in the middle leaves a rollout that another one brings to its end', async () => {
  const nodes = [await addNode('a'), await addNode('b'), await addNode('c'), await addNode('d')]
  await serveOn(nodes)
  world.publish('engine', '2.0')
  const id = await world.upgrade('engine', { rollout: { min_healthy_time: '1s' } })
  await world.until(id, 'in its second ring', ({ nodes: [first] }) => first?.status === 'success')
  await world.controllers[0]?.stop()
  expect(await world.ended(id, { index: 1 })).toMatchObject({ state: 'succeeded' })
  for (const { asked } of nodes) expect(asked).toHaveLength(1)
})

it('cancelling it ends nodes that wait for their ring', async () => {
  const nodes = [await addNode('a'), await addNode('b')]
  await serveOn(nodes)
  world.publish('engine', '2.0')
  const id = await world.upgrade('engine', { rollout: { min_healthy_time: '3s' } })
  await world.until(id, 'watched', ({ nodes: [first] }) => first?.phase === 'starting')
  const cancelled = await world.api(1).post(`/api/operations/${id}/cancel`, {})
  expect(cancelled).toMatchObject({ status: 202, body: { state: 'running', nodes: [{ status: 'downloading' }, { status: 'cancelled' }] } })
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
  expect(nodes.map(({ asked }) => asked.length)).toEqual([1, 0])
})
