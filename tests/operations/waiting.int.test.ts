// Intents over time: those of a node that is long away, and those that a start finds for nodes that can have no backends.
import { join } from 'node:path'
import { backendInstall, heartbeat, Incarnation, NodeId, opStatus } from '@muster/protocol'
import { administer, createNodeCaller, joinToken, startTestController, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { backendName, failing } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld, type ScriptedWorker } from './operations-world.ts'

let world: OperationsWorld
let one: ScriptedWorker
const flags = { 'op-retry-base': '10ms', 'op-retry-max': '20ms', 'op-stall-timeout': '4s', 'node-offline-after': '5s' }

beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2, nats: true, flags })
  one = await world.addWorker('one')
})
afterAll(() => world[Symbol.asyncDispose]())

const query = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  await administer(world.database.url, async (client) => (await client.query<Record<string, unknown>>(text, values)).rows)

it(
  'A14 S0.37 fifty intents for a node that is away wait unharmed, and go out in their order when it is back',
  { timeout: 150_000 },
  async () => {
    const away = await world.addWireWorker('away')
    away.beSilent(true)
    // Then it is not even asked what it has, which controllers do after operations.
    await world.untilStatus(away.id, 'offline')
    const names = Array.from({ length: 50 }, (_, index) => `many-${index}`)
    for (const name of names) world.publish(name, '1.0.0')
    const ids: string[] = []
    for (const [index, name] of names.entries()) ids.push(await world.install(name, { nodes: [away.id] }, index % 2))

    // As many tries as there are for anything, twice over, pass meanwhile.
    world.publish('poison', '1.0.0')
    one.installer.script.set(backendName('poison'), failing({ code: 'unavailable', retry: 'backoff', message: 'no' }))
    for (let round = 0; round < 2; round += 1) {
      const poisoned = await world.ended(await world.install('poison', { nodes: [one.id] }))
      expect(poisoned.nodes[0]).toMatchObject({ dead: true, attempts: 10 })
    }
    const waiting = await query(`select state, attempts, epoch::int from intents where node_id = $1`, [away.id])
    expect(waiting).toEqual(Array.from({ length: 50 }, () => ({ state: 'waiting', attempts: 0, epoch: 0 })))
    const active = await world.api(1).get('/api/operations')
    const shown = (
      active.body['operations'] as unknown as { state: string; nodes: { status: string; attempts: number; message: string }[] }[]
    ).map(({ state, nodes }) => [
      state,
      nodes[0]?.status,
      nodes[0]?.attempts,
      /^node (unhealthy|offline), will retry/.test(nodes[0]?.message ?? ''),
    ])
    expect(shown).toEqual(Array.from({ length: 50 }, () => ['background', 'queued', 0, true]))

    const heard: string[] = []
    const served = away.bus.serve(backendInstall, { node: away.id }, ({ backend, op_id, generation, epoch }) => {
      heard.push(backend)
      if (op_id === undefined || generation === undefined || epoch === undefined) throw new Error('the command names no try')
      away.say({ type: 'op.result', op_id, state: 'succeeded', generation, epoch })
      return { accepted: true as const }
    })
    away.beSilent(false)
    for (const id of ids) expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
    expect(heard).toEqual(names)
    await served.stop()
    await world.api().delete(`/api/nodes/${away.id}`)
  },
)

it('S0.9 any answered command heals a node that met no responders, also a question about its work', async () => {
  const patchy = await world.addWireWorker('patchy')
  const to = { node: patchy.id }
  const listening = patchy.bus.serve(backendInstall, to, () => ({ accepted: true as const }))
  world.publish('long', '1.0.0')
  world.publish('lost', '1.0.0')
  const long = await world.install('long', { nodes: [patchy.id] })
  await world.until(long, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
  await listening.stop()
  const lost = await world.ended(await world.install('lost', { nodes: [patchy.id] }))
  expect(lost.nodes[0]).toMatchObject({ dead: true, error_code: 'unavailable' })
  await world.untilStatus(patchy.id, 'unhealthy')
  let current = 0
  const answering = patchy.bus.serve(opStatus, to, ({ op_id }) => ({ op_id, state: 'running' as const, current: (current += 1) }))
  await world.untilStatus(patchy.id, 'healthy')
  await answering.stop()
  await world.api().delete(`/api/nodes/${patchy.id}`)
})

it('S0.14 S0.15 a start cancels, once and with an event, intents of nodes that are agents now; the others stay', async () => {
  const caller = createNodeCaller(world.api().url)
  const joined = await caller.register({ name: 'turned', token: joinToken })
  const turned = NodeId.parse(joined.body['id'])
  world.bus.publish(
    heartbeat,
    { node: turned },
    { node_id: turned, incarnation: Incarnation.parse(caller.incarnation), seq: 1, version: '0', resources: {} },
  )
  world.publish('stale', '1.0.0')
  await one.stop()
  await world.api().post(`/api/nodes/${turned}/drain`)
  const id = await world.install('stale')
  expect((await caller.register({ name: 'turned', node_type: 'agent' })).status).toBe(200)
  const starting = ['a', 'b'].map((name) =>
    startTestController({
      directory: join(world.directory, `late-${name}`),
      databaseUrl: world.database.url,
      flags: { ...flags, 'nats-url': world.nats?.url ?? '' },
    }),
  )
  const started = await Promise.all(starting)
  const seen = await world.operation(id)
  expect(seen).toMatchObject({ state: 'background', finished_at: null })
  expect(seen.nodes.map(({ node_name, status, message }) => [node_name, status, message])).toEqual([
    ['one', 'queued', 'node offline, will retry when healthy'],
    ['turned', 'cancelled', 'the node is an agent now, which has no backends'],
  ])
  const events = await query(`select type, detail from intent_events where node_id = $1 and type <> 'requested'`, [turned])
  expect(events).toEqual([{ type: 'cancelled', detail: { reason: 'agent node' } }])
  expect(await query(`select state from intents where backend = 'stale' and node_id = $1`, [one.id])).toEqual([{ state: 'waiting' }])
  for (const each of started) await each.stop()
  await one.start()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
  await waitFor(async () => (await world.api().delete(`/api/nodes/${turned}`)).status === 204, { what: 'the node to go' })
})
