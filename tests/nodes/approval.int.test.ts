// Approval is the only door: whatever a machine says of itself, only an administrator lets it in.
import { createLocalHub } from '@muster/bus'
import { createNodeKey, silentLog } from '@muster/host'
import { ApiError, backendList, heartbeat, nodeEvents, NodeId } from '@muster/protocol'
import {
  boundMs,
  createNodeCaller,
  createTestDatabase,
  joinToken,
  makeTempDir,
  startNats,
  startTestController,
  waitFor,
  type TestController,
} from '@muster/testkit'
import { connectNats } from '@muster/bus'
import { systemClock } from '@muster/host'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

let cluster: TestController
let bus: Awaited<ReturnType<typeof connectNats>>
const endings: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  const nats = await startNats()
  const directory = await makeTempDir()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  cluster = await startTestController({
    directory: directory.path,
    databaseUrl: database.url,
    flags: { 'nats-url': nats.url, 'node-timeout': '1s', 'heartbeat-interval': '200ms', 'node-offline-after': '2s' },
  })
  bus = await connectNats({ url: nats.url, name: 'test', log: silentLog, clock: systemClock, inboxPrefix: '_INBOX_test' })
  endings.push(
    () => bus.close(),
    () => cluster.stop(),
    () => nats.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
})
afterAll(async () => {
  for (const end of endings) await end()
})

const statusOf = async (id: string): Promise<string> => String((await cluster.api.get(`/api/nodes/${id}`)).body['status'])
const until = (id: string, status: string): Promise<unknown> =>
  waitFor(async () => (await statusOf(id)) === status, { what: `${id} to be ${status}` })
/** Reports at each look, as a living worker would, so that a slow machine does not make it silent in between. */
const untilHealthy = (id: NodeId, incarnation: string): Promise<unknown> =>
  waitFor(
    async () => {
      beat(id, incarnation)
      return (await statusOf(id)) === 'healthy'
    },
    { what: `${id} to be healthy` },
  )
const join = async (name: string) => {
  const node = createNodeCaller(cluster.url)
  const answer = await node.register({ name, token: joinToken })
  expect(answer.status).toBe(201)
  return { node, id: NodeId.parse(answer.body['id']) }
}
let seq = 0
const beat = (id: NodeId, incarnation: string): void =>
  bus.publish(heartbeat, { node: id }, { node_id: id, incarnation, seq: (seq += 1), version: '0', resources: {}, in_flight: 0, ops: [] })

describe('a pending node', () => {
  it('X2 does not become healthy by heartbeats, over the bus or over HTTP, nor by a stale heartbeat that went offline', async () => {
    const { node, id } = await join('beats')
    beat(id, node.incarnation)
    expect((await node.post(`/api/node/${id}/heartbeat`, { incarnation: node.incarnation, resources: {} })).body['status']).toBe('pending')
    // A second node, approved, shows that heartbeats sent before its own were taken in.
    const witness = await join('witness')
    await cluster.api.post(`/api/nodes/${witness.id}/approve`)
    await untilHealthy(witness.id, witness.node.incarnation)
    expect(await statusOf(id)).toBe('pending')
    // Silence turns the witness offline; the pending one stays what it is, and so it does after it reports again.
    await until(witness.id, 'offline')
    expect(await statusOf(id)).toBe('pending')
    beat(id, node.incarnation)
    await untilHealthy(witness.id, witness.node.incarnation)
    expect(await statusOf(id)).toBe('pending')
  })

  it('cannot stop the heartbeats of other nodes with text that PostgreSQL cannot store', async () => {
    const { node, id } = await join('poison')
    const resources = { gpu_vendor: '\u0000', cpus: 1 }
    expect((await node.post(`/api/node/${id}/heartbeat`, { incarnation: node.incarnation, resources })).status).toBe(200)
    beat(id, node.incarnation)
    const witness = await join('witness-0')
    await cluster.api.post(`/api/nodes/${witness.id}/approve`)
    await untilHealthy(witness.id, witness.node.incarnation)
    expect((await cluster.api.get(`/api/nodes/${id}`)).body['resources']).toMatchObject({ gpu_vendor: null })
  })

  it('X1 does not become healthy by resume, and drain does not hide that it is pending', async () => {
    const { id } = await join('resumes')
    expect((await cluster.api.post(`/api/nodes/${id}/resume`)).body['status']).toBe('pending')
    expect((await cluster.api.post(`/api/nodes/${id}/drain`)).body['status']).toBe('pending')
    expect((await cluster.api.post(`/api/nodes/${id}/resume`)).body['status']).toBe('pending')
  })

  it('does not become healthy by registering again, under the same or another name', async () => {
    const { node, id } = await join('before')
    const again = await node.register({ name: 'before' })
    expect(again).toMatchObject({ status: 200, body: { id, status: 'pending' } })
    const renamed = await node.register({ name: 'after' })
    expect(renamed).toMatchObject({ status: 200, body: { id, name: 'after', status: 'pending' } })
    expect(await statusOf(id)).toBe('pending')
  })

  it('is not healthy by approval alone, whatever it reported before', async () => {
    const { node, id } = await join('early')
    // Beats are not acknowledged: the first ones may be lost. None may be on its way when the node is approved.
    let sentAt = -Infinity
    const isSeen = async (): Promise<boolean> => {
      if (performance.now() - sentAt > boundMs(3_000)) {
        beat(id, node.incarnation)
        sentAt = performance.now()
      }
      return (await cluster.api.get(`/api/nodes/${id}`)).body['last_seen_at'] !== null
    }
    await waitFor(isSeen, { what: 'the report to be taken in' })
    const approved = await cluster.api.post(`/api/nodes/${id}/approve`)
    expect(approved.body).toMatchObject({ status: 'unhealthy', status_reason: expect.stringMatching(/has not reported/) })
    await untilHealthy(id, node.incarnation)
  })

  it('I13 gets no bus from its session, and gets it within a moment of its approval', async () => {
    const { node, id } = await join('session')
    const polls = node.post(`/api/node/${id}/session`, { incarnation: node.incarnation })
    await cluster.api.post(`/api/nodes/${id}/approve`)
    const session = await polls
    expect(session.status).toBe(200)
    expect(session.body['bus']).toMatchObject({ url: expect.stringMatching(/^nats:/) })
  })

  it('SEC5 gets the secret of its gateway with its approval; no other node or user ever sees it', async () => {
    const [{ node, id }, other] = [await join('secret'), await join('other')]
    // With another `known` the poll is answered at once: this is what a node that waits is told.
    const early = await node.post(`/api/node/${id}/session`, { incarnation: node.incarnation, known: 'something else' })
    expect(early.status).toBe(200)
    expect(early.body).not.toHaveProperty('gateway_secret')
    for (const each of [id, other.id]) await cluster.api.post(`/api/nodes/${each}/approve`)
    const told = await node.post(`/api/node/${id}/session`, { incarnation: node.incarnation, known: early.body['etag'] })
    const secret = String(told.body['gateway_secret'])
    expect(secret).toMatch(/^[0-9a-f]{64}$/)
    const theirs = await other.node.post(`/api/node/${other.id}/session`, { incarnation: other.node.incarnation })
    expect(theirs.body['gateway_secret']).toMatch(/^[0-9a-f]{64}$/)
    expect(theirs.body['gateway_secret']).not.toBe(secret)
    const again = await node.post(`/api/node/${id}/session`, { incarnation: node.incarnation, known: 'older' })
    expect(again.body).toMatchObject({ gateway_secret: secret, etag: told.body['etag'] })
    for (const path of [`/api/nodes/${id}`, '/api/nodes', '/metrics']) {
      expect((await cluster.api.get(path)).text, path).not.toContain(secret)
    }
  })

  it('does not become healthy by answering a command', async () => {
    const { node, id } = await join('answers')
    const serving = bus.serve(backendList, { node: id }, () => ({ backends: [] }))
    await node.post(`/api/node/${id}/heartbeat`, { incarnation: node.incarnation })
    const witness = await join('witness-2')
    await cluster.api.post(`/api/nodes/${witness.id}/approve`)
    await untilHealthy(witness.id, witness.node.incarnation)
    expect(await statusOf(id)).toBe('pending')
    await serving.stop()
  })
})

describe('identity', () => {
  it('X3 a known name with another key is a new pending node, and the victim is untouched', async () => {
    const victim = await join('victim')
    await cluster.api.post(`/api/nodes/${victim.id}/approve`)
    await untilHealthy(victim.id, victim.node.incarnation)
    const thief = await join('victim')
    expect(thief.id).not.toBe(victim.id)
    expect(await statusOf(thief.id)).toBe('pending')
    await untilHealthy(victim.id, victim.node.incarnation)
  })

  it('X4 a foreign public key without its signature is refused', async () => {
    const victim = await join('owner')
    const thief = createNodeCaller(cluster.url)
    const stolen = await thief.post('/api/node/register', {
      name: 'owner',
      public_key: victim.node.key.publicKey,
      incarnation: 'x',
      token: joinToken,
    })
    expect(stolen).toMatchObject({ status: 401, body: { error: { code: 'bad_signature' } } })
    expect((await thief.post(`/api/node/${victim.id}/session`, {})).status).toBe(404)
    expect((await thief.post(`/api/node/${victim.id}/heartbeat`, { incarnation: 'x' })).status).toBe(404)
    const unsigned = await cluster.api.post('/api/node/register', { name: 'n', public_key: victim.node.key.publicKey, incarnation: 'x' })
    expect(unsigned).toMatchObject({ status: 401, body: { error: { code: 'bad_signature' } } })
  })

  it('a new key needs the token: none, a wrong one and an empty one are refused alike', async () => {
    for (const token of [undefined, 'wrong', '']) {
      const answer = await createNodeCaller(cluster.url).register({ token })
      expect(answer).toMatchObject({ status: 401, body: { error: { code: 'wrong_token' } } })
    }
  })

  it('a join token that an administrator makes lets a key in, to wait for approval', async () => {
    const made = await cluster.api.post('/api/join-tokens', {})
    expect(made).toMatchObject({
      status: 201,
      body: { url: expect.stringMatching(/^http:/), token: expect.stringMatching(/^muster_join_/) },
    })
    expect(Date.parse(String(made.body['expires_at'])) - Date.now()).toBeGreaterThan(3_500_000)
    const joined = await createNodeCaller(cluster.url).register({ token: String(made.body['token']) })
    expect(joined).toMatchObject({ status: 201, body: { status: 'pending' } })
    expect((await createNodeCaller(cluster.url).register({ token: joinToken })).status).toBe(201) // the lasting one still does
  })

  it('a signature from another time is refused with the time here', async () => {
    const key = createNodeKey()
    const { signRequest } = await import('@muster/host')
    const raw = JSON.stringify({ name: 'n', public_key: key.publicKey, incarnation: 'x' })
    const headers = signRequest(key, {
      method: 'POST',
      path: '/api/node/register',
      body: Buffer.from(raw),
      now: new Date(Date.now() - 600_000),
    })
    const answer = await cluster.api.call('POST', '/api/node/register', { raw, headers })
    expect(answer).toMatchObject({
      status: 401,
      body: { error: { code: 'clock_skew', details: { now: expect.stringMatching(/^\d{4}-/) } } },
    })
  })

  it('I12 reports of an older process with the same key are dropped, and its session reports why', async () => {
    const { node: older, id } = await join('twice')
    await cluster.api.post(`/api/nodes/${id}/approve`)
    const newer = createNodeCaller(cluster.url, older.key)
    await newer.register({ name: 'twice' })
    await untilHealthy(id, newer.incarnation)
    bus.publish(nodeEvents, { node: id }, { type: 'leaving', incarnation: older.incarnation, seq: 1 } as never)
    expect(await older.post(`/api/node/${id}/session`, { incarnation: older.incarnation })).toMatchObject({
      status: 409,
      body: { error: { code: 'superseded' } },
    })
    bus.publish(nodeEvents, { node: id }, { type: 'leaving', incarnation: newer.incarnation, seq: 1 } as never)
    await until(id, 'offline')
    beat(id, older.incarnation)
    const witness = await join('witness-3')
    await cluster.api.post(`/api/nodes/${witness.id}/approve`)
    await untilHealthy(witness.id, witness.node.incarnation)
    expect(await statusOf(id)).toBe('offline')
  })
})

describe('the order of registrations', () => {
  const minutes = (count: number): Date => new Date(Date.now() + count * 60_000)

  it('I12 one that arrives late, or once more, does not take the node from the process that registered since', async () => {
    const key = createNodeKey()
    const [older, newer] = [createNodeCaller(cluster.url, key), createNodeCaller(cluster.url, key)]
    const signedAt = minutes(-1)
    const joined = await older.register({ name: 'late', token: joinToken }, signedAt)
    const id = String(joined.body['id'])
    const newest = minutes(0)
    expect((await newer.register({ name: 'new' }, newest)).status).toBe(200)
    for (const again of [signedAt, newest]) {
      expect(await older.register({ name: 'late' }, again)).toMatchObject({
        status: 409,
        body: { error: { code: 'registration_outdated', details: { newest: newest.toISOString() } } },
      })
    }
    expect((await cluster.api.get(`/api/nodes/${id}`)).body).toMatchObject({ name: 'new' })
    await cluster.api.post(`/api/nodes/${id}/approve`)
    expect((await newer.post(`/api/node/${id}/session`, { incarnation: newer.incarnation })).status).toBe(200)
  })

  it('a process may repeat its registration, also after its clock was set back', async () => {
    const node = createNodeCaller(cluster.url)
    expect((await node.register({ token: joinToken }, minutes(4))).status).toBe(201)
    for (const at of [minutes(4), minutes(-4), minutes(0)]) expect((await node.register({}, at)).status).toBe(200)
    // And that does not make room for one that was signed before.
    expect((await createNodeCaller(cluster.url, node.key).register({}, minutes(2))).status).toBe(409)
  })

  it('a process whose clock is behind that of the previous process registers with a later time', async () => {
    const before = createNodeCaller(cluster.url)
    await before.register({ token: joinToken }, minutes(4))
    const after = createNodeCaller(cluster.url, before.key)
    const refused = await after.register()
    expect(refused.status).toBe(409)
    const { error } = ApiError.parse(refused.body)
    const newest = Date.parse(String(error.details?.['newest']))
    expect((await after.register({}, new Date(newest + 1))).status).toBe(200)
  })
})

describe('a legacy worker, which heartbeats over HTTP', () => {
  it('is healthy only after it answered backend.list, after approval and after each return', async () => {
    const { node, id } = await join('legacy')
    await cluster.api.post(`/api/nodes/${id}/approve`)
    const report = () => node.post(`/api/node/${id}/heartbeat`, { incarnation: node.incarnation, resources: { cpus: 4 } })
    await report()
    await waitFor(async () => String((await cluster.api.get(`/api/nodes/${id}`)).body['status_reason']).includes('not answering'), {
      what: 'no responders to be noticed',
    })
    expect(await statusOf(id)).toBe('unhealthy')

    const serving = bus.serve(backendList, { node: id }, () => ({ backends: [{ name: 'llama-cpp' }] }))
    await until(id, 'offline') // silent meanwhile
    await report()
    await waitFor(async () => (await report(), (await statusOf(id)) === 'healthy'), {
      what: 'the answer to make it healthy',
    })
    expect((await cluster.api.get(`/api/nodes/${id}/backends`)).body).toMatchObject({ backends: [{ name: 'llama-cpp' }] })
    await serving.stop()
  })
})

describe('the last hour of a node', () => {
  it('contains the received figures under the budget, and is deleted with the node', async () => {
    const { node, id } = await join('watched')
    const historyOf = async () => (await cluster.api.get(`/api/nodes/${id}/history`)).body
    expect(await historyOf()).toEqual({ interval_seconds: 15, samples: [] })
    const resources = { total_vram: 1_000, available_vram: 700, available_ram: 5, gpu_vendor: 'nvidia' }
    await node.post(`/api/node/${id}/heartbeat`, { incarnation: node.incarnation, resources, in_flight: 3 })
    const said = { available_ram: 5, available_disk: null, in_flight: 3 }
    expect(await historyOf()).toMatchObject({ samples: [{ ...said, available_vram: 700, at: expect.stringMatching(/^\d{4}-/) }] })
    await waitFor(async () => (await cluster.api.get(`/api/nodes/${id}`)).body['last_seen_at'] !== null, {
      what: 'the report to be written',
    })
    await cluster.api.put(`/api/nodes/${id}/vram-budget`, { value: '80%' })
    expect(await historyOf()).toMatchObject({ samples: [{ ...said, available_vram: 500 }] })
    expect((await cluster.api.call('DELETE', `/api/nodes/${id}`)).status).toBe(204)
    expect(await cluster.api.get(`/api/nodes/${id}/history`)).toMatchObject({ status: 404 })
  })
})

describe('a bus inside the process', () => {
  it('refuses foreign workers, and names the command to run', async () => {
    const directory = await makeTempDir()
    const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
    await using alone = await startTestController({
      directory: directory.path,
      databaseUrl: database.url,
      hub: createLocalHub({ log: silentLog }),
    })
    const answer = await createNodeCaller(alone.url).register({ token: joinToken })
    expect(answer).toMatchObject({ status: 409, body: { error: { code: 'bus_is_local', message: expect.stringMatching(/--nats-url/) } } })
    expect(await alone.api.post('/api/join-tokens', {})).toMatchObject({ status: 409, body: answer.body })
    await alone.stop()
    await database.drop()
    await directory.remove()
  })
})
