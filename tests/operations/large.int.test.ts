// An operation on hundreds of nodes: what it costs to look at it.
import { BackendName, NodeId, OperationId, progress, type OperationView } from '@muster/protocol'
import { boundMs, readEvents } from '@muster/testkit'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startOperationsWorld, type OperationsWorld } from './operations-world.ts'

const count = 300
let world: OperationsWorld
beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl') })
  const { id } = await world.addWireWorker('first')
  const client = new Client({ connectionString: world.database.url })
  await client.connect()
  await client.query(
    `insert into nodes select (jsonb_populate_record(null::nodes, to_jsonb(n) || jsonb_build_object('id', 'big-' || i,
       'name', 'big-' || lpad(i::text, 3, '0'), 'public_key', 'U' || rpad(translate(i::text, '0123456789', 'ABCDEFGHIJ'), 55, 'K')))).*
     from nodes n, generate_series(1, $2::int) i where n.id = $1`,
    [id, count],
  )
  await client.query(
    `insert into node_pulses select (jsonb_populate_record(null::node_pulses, to_jsonb(p) || jsonb_build_object('node_id', 'big-' || i,
       'liveness', 'gone'))).* from node_pulses p, generate_series(1, $2::int) i where p.node_id = $1`,
    [id, count],
  )
  await client.end()
  await world.api().post(`/api/nodes/${id}/drain`)
})
afterAll(() => world[Symbol.asyncDispose]())

it('S2.38 B4 three hundred nodes are answered quickly, whole and in order, and watched without a flood', async () => {
  world.publish('large', '1.0.0')
  await using reader = await readEvents(world.api())
  const id = await world.install('large')
  const look = async (): Promise<{ ms: number; operation: OperationView }> => {
    const began = performance.now()
    const operation = await world.operation(id)
    return { ms: performance.now() - began, operation }
  }
  await look()
  const { operation } = await look()
  const names = operation.nodes.map(({ node_name }) => node_name)
  expect(names.length).toBe(count + 1)
  expect(names).toEqual(names.toSorted())
  expect(operation.nodes[0]).toMatchObject({ status: 'queued', message: 'node offline, will retry when healthy' })
  const [op, backend] = [OperationId.parse(id), BackendName.parse('large')]
  for (let round = 1; round <= 10; round += 1) {
    for (let i = 1; i <= count; i += 1) {
      const node = NodeId.parse(`big-${i}`)
      const bytes = { file_name: 'layer', current: round, total: 20, percentage: round * 5, phase: null, seq: round, epoch: 1 }
      world.bus.publish(progress, { node, op }, { op_id: op, node_id: node, backend, ...bytes })
    }
    // Meanwhile it is looked at, as by a page that is open.
    await world.until(id, `at ${round * 5}`, ({ nodes }) => nodes[count - 1]?.percentage === round * 5)
  }
  await reader.until(
    'the last of it (the one that has not begun weighs more)',
    ({ data }) => data['id'] === id && Number(data['progress']) >= 48,
  )
  const times = [await look(), await look(), await look()].map(({ ms }) => ms)
  // Tens of milliseconds on a quiet machine.
  expect(Math.min(...times)).toBeLessThan(boundMs(1_000))
  expect(reader.events.filter(({ data, id: seq }) => data['id'] === id && seq === null).length).toBeLessThan(25)
  const listed = (await world.api().get('/api/operations')).body['operations'] as unknown as OperationView[]
  expect(listed.find((each) => each.id === id)?.nodes.length).toBe(count + 1)
})
