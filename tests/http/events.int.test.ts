// GET /api/events on two controllers of one database: what happens through one is heard on the other.
import { connect } from 'node:net'
import {
  boundMs,
  createApiClient,
  createNodeCaller,
  createTestDatabase,
  joinToken,
  makeTempDir,
  readEvents,
  startNats,
  startTestController,
  waitFor,
  adminKey,
  type TestController,
} from '@muster/testkit'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

let [a, b]: [TestController, TestController] = [undefined as never, undefined as never]
let databaseUrl = ''
const endings: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  const nats = await startNats()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  databaseUrl = database.url
  const directories = [await makeTempDir(), await makeTempDir()]
  const start = (directory: string) => startTestController({ directory, databaseUrl, flags: { 'nats-url': nats.url } })
  ;[a, b] = await Promise.all([start(directories[0]?.path ?? ''), start(directories[1]?.path ?? '')])
  endings.push(
    () => a.stop(),
    () => b.stop(),
    () => nats.stop(),
    () => database.drop(),
    ...directories.map((directory) => () => directory.remove()),
  )
})
afterAll(async () => {
  for (const end of endings) await end()
})

const join = async (name: string): Promise<string> =>
  String((await createNodeCaller(a.url).register({ name, token: joinToken })).body['id'])
const count = async (sql: string): Promise<number> => {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  const { rows } = await client.query<{ n: string }>(sql)
  await client.end()
  return Number(rows[0]?.n)
}

describe('events', () => {
  it('B7 every controller sends the changed object within a second', async () => {
    await using reader = await readEvents(b.api)
    const id = await join('alpha')
    const joined = await reader.until('the new node', (event) => event.data['id'] === id)
    expect(joined).toMatchObject({ event: 'node', data: { name: 'alpha', status: 'pending' } })
    // With the event, or alone a little later: a transaction of another database on this server may hold it back.
    await waitFor(() => /^\d+$/.test(reader.lastId() ?? ''), { what: 'an id' })
    const began = Date.now()
    await a.api.post(`/api/nodes/${id}/approve`)
    await reader.until('its approval', (event) => event.data['id'] === id && event.data['approved_at'] !== null)
    expect(Date.now() - began).toBeLessThan(boundMs(1_000))
    expect(joined.data).toEqual({
      ...(await b.api.get(`/api/nodes/${id}`)).body,
      status: 'pending',
      status_reason: expect.any(String),
      approved_at: null,
    })
    await a.api.delete(`/api/nodes/${id}`)
    expect((await reader.until('its end', (event) => event.data['deleted'] === true)).data).toEqual({ id, deleted: true })
  })

  it('are resumed on any controller: the current state of everything that changed since the last ID', async () => {
    const reader = await readEvents(a.api)
    const before = await join('kept')
    await reader.until('the first', (event) => event.data['id'] === before)
    await reader.close()
    const [gone, changed] = [await join('gone'), await join('changed')]
    await a.api.delete(`/api/nodes/${gone}`)
    for (const value of ['1', '2', '3']) await a.api.patch(`/api/nodes/${changed}/labels`, { round: value })

    await using again = await readEvents(b.api, { lastEventId: reader.lastId() ?? '' })
    await again.until('the changed one', (event) => event.data['id'] === changed)
    await again.until('the deleted one', (event) => event.data['id'] === gone)
    // Once from the past, and once more if the other controller had yet to hear of it: never a backlog of three.
    const told = again.events.filter((event) => event.data['id'] === changed)
    expect(told.length).toBeLessThanOrEqual(2)
    for (const event of told) expect(event.data['labels']).toMatchObject({ round: '3' })
    expect(again.events.find((event) => event.data['id'] === gone)?.data).toEqual({ id: gone, deleted: true })
  })

  it.each([
    ['of a future that never was', '999999999'],
    ['that is no number', 'abc'],
  ])('begin anew for an id %s', async (_, lastEventId) => {
    await using reader = await readEvents(a.api, { lastEventId })
    expect((await reader.until('a reset', (event) => event.event === 'reset')).id).toMatch(/^\d+$/)
  })

  it('start again when deletions since then are no longer stored', async () => {
    await using reader = await readEvents(a.api)
    const first = reader.lastId() ?? ''
    const id = await join('forgotten')
    await a.api.delete(`/api/nodes/${id}`)
    await reader.until('the end', (event) => event.data['deleted'] === true && event.data['id'] === id)
    // As after an hour.
    await count(`with old as (update changes set at = now() - interval '2 hours' where deleted returning 1) select count(*) as n from old`)
    await count(
      `with gone as (delete from changes where deleted returning seq), floor as (update change_floor set seq = (select max(seq) from gone) returning 1) select count(*) as n from floor`,
    )
    await using again = await readEvents(b.api, { lastEventId: first })
    expect(await again.until('a reset', (event) => event.event === 'reset')).toMatchObject({ data: {} })
  })

  it('carry numbers that move, between the stored states and without an id', async () => {
    const caller = createNodeCaller(a.url)
    const id = String((await caller.register({ name: 'moving', token: joinToken })).body['id'])
    await a.api.post(`/api/nodes/${id}/approve`)
    await using reader = await readEvents(a.api)
    const report = (seq: number) =>
      caller.post(`/api/node/${id}/heartbeat`, { incarnation: caller.incarnation, seq, resources: { cpus: seq } })
    await report(1)
    await reader.until('a change of state', (event) => event.data['id'] === id && event.id !== null)
    let seq = 1
    const cpusOf = ({ data }: { data: Record<string, unknown> }): number => (data['resources'] as { cpus: number }).cpus
    const hasMoved = (): boolean => reader.events.some((event) => event.id === null && event.data['id'] === id && cpusOf(event) > 1)
    await waitFor(async () => (await report((seq += 1)), hasMoved()), { what: 'a number that moved, without an id' })
  })

  it('SEC10 end within two seconds, on every controller, for a key that was revoked, and go on for others', async () => {
    const { body } = await a.api.post('/api/keys', { name: 'short-lived', scope: 'read' })
    await using reader = await readEvents(createApiClient(b.url, String(body['key'])))
    await using other = await readEvents(b.api)
    const began = Date.now()
    expect((await a.api.delete(`/api/keys/${String(body['id'])}`)).status).toBe(204)
    await waitFor(() => !reader.isOpen(), { what: 'the stream of the revoked key to end' })
    expect(Date.now() - began).toBeLessThan(boundMs(2_500))
    const id = await join('after-revocation')
    await other.until('what comes after', (event) => event.data['id'] === id)
    expect(reader.events.some((event) => event.data['id'] === id)).toBe(false)
  })

  it('SEC10 end for a browser that logged out elsewhere', async () => {
    const { body } = await a.api.post('/api/login-links')
    const link = new URL(String(body['url']))
    const letIn = await createApiClient(a.url).get(`${link.pathname}${link.search}`)
    const cookie = (letIn.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
    const browser = createApiClient(b.url)
    await using reader = await readEvents({ ...browser, open: (path, headers) => browser.open(path, { ...headers, cookie }) })
    expect((await createApiClient(a.url).post('/api/logout', undefined, { headers: { cookie, origin: a.url } })).status).toBe(204)
    await waitFor(() => !reader.isOpen(), { what: 'its stream to end' })
  })

  it('are not opened by HEAD', async () => {
    expect((await b.api.call('HEAD', '/api/events')).status).toBe(200)
    expect((await b.api.get('/metrics')).text).toMatch(/muster_event_listeners 0/)
  })

  it('B13 to a listener that reads late end with the newest state, and it is forgotten when it goes', async () => {
    const id = await join('busy')
    const { hostname, port } = new URL(b.url)
    const socket = connect(Number(port), hostname)
    socket.pause()
    socket.write(`GET /api/events HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${adminKey}\r\n\r\n`)
    await waitFor(async () => /muster_event_listeners [1-9]/.test((await b.api.get('/metrics')).text), {
      what: 'the listener to be counted',
    })
    const filler = 'x'.repeat(200)
    for (let round = 0; round < 100; round += 1)
      await a.api.patch(
        `/api/nodes/${id}/labels`,
        Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`l${i}`, `${round} ${filler}`])),
      )
    let text = ''
    socket.on('data', (chunk) => (text += String(chunk)))
    socket.resume()
    await waitFor(() => text.includes(`"l0":"99 ${filler}"`), { what: 'the newest state' })
    socket.destroy()
    await waitFor(async () => /muster_event_listeners 0/.test((await b.api.get('/metrics')).text), { what: 'the listener to be forgotten' })
  })
})
