import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import { createNodeKey, silentLog, systemClock } from '@muster/host'
import { nodeAgentRoutes } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { recordingLog } from '../../test/recording-log.ts'
import { createControllerClient, parseRetryAfter } from './controller-client.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close()
    server.closeAllConnections()
  }
})

type Reply = { status: number; body: string; headers?: Record<string, string> }
async function serve(
  reply: (request: { timestamp: string }) => Reply | null,
  { until = () => true }: { until?: () => boolean } = {},
): Promise<{ url: string; asked: () => number }> {
  let asked = 0
  const server = createServer((request, response) => {
    asked += 1
    const planned = reply({ timestamp: String(request.headers['x-muster-timestamp']) })
    if (planned === null) return
    void waitFor(until, { what: 'the time to answer' }).then(() => {
      response.writeHead(planned.status, planned.headers ?? {})
      response.end(planned.body)
    })
  }).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no address')
  return { url: `http://127.0.0.1:${address.port}`, asked: () => asked }
}
const error = (status: number, code: string, more: Partial<Reply> & { details?: object } = {}): Reply => ({
  status,
  body: JSON.stringify({ error: { code, message: 'why', details: more.details } }),
  ...(more.headers === undefined ? {} : { headers: more.headers }),
})
const registered: Reply = { status: 200, body: '{"id":"n-1","name":"a","status":"pending"}' }
const nobody = 'http://127.0.0.1:1'

const client = (urls: readonly [string, ...string[]], log = silentLog) =>
  createControllerClient({ key: createNodeKey(), urls: () => urls, clock: systemClock, log })
const call = { body: {}, timeoutMs: 2000, signal: new AbortController().signal }

describe('an answer', () => {
  it.each<[string, Reply, object]>([
    ['is what it says', registered, { kind: 'ok', body: { id: 'n-1' } }],
    ['is a refusal with its reason', error(409, 'superseded'), { kind: 'refused', status: 409, code: 'superseded', message: 'why' }],
    [
      'says when to come back',
      error(503, 'unavailable', { headers: { 'retry-after': '7' } }),
      { kind: 'refused', status: 503, retryAfterMs: 7000 },
    ],
    ['that is no controller’s is none', { status: 404, body: 'not here' }, { kind: 'unreachable', retryAfterMs: null }],
    ['of a wrong shape is none', { status: 200, body: '{"id":"N 1"}' }, { kind: 'unreachable' }],
    ['that sends us elsewhere is none', { status: 307, body: '', headers: { location: 'http://127.0.0.1:9/' } }, { kind: 'unreachable' }],
    [
      'larger than 1 MB is none',
      { status: 200, body: 'x'.repeat(1_000_001) },
      { kind: 'unreachable', reason: expect.stringContaining('larger') },
    ],
  ])('%s', async (_, reply, want) => {
    const { url } = await serve(() => reply)
    expect(await client([url]).call(nodeAgentRoutes.register, call)).toMatchObject(want)
  })

  it('that does not come in time is none', async () => {
    const { url } = await serve(() => null)
    expect(await client([url]).call(nodeAgentRoutes.register, { ...call, timeoutMs: 30 })).toMatchObject({
      kind: 'unreachable',
      reason: 'no answer within 30 ms',
    })
  })

  it('is not waited for after an abort', async () => {
    const { url, asked } = await serve(() => null)
    const stop = new AbortController()
    const answer = client([url]).call(nodeAgentRoutes.register, { ...call, signal: stop.signal })
    await expect.poll(asked).toBe(1)
    stop.abort('enough')
    await expect(answer).rejects.toBe('enough')
  })
})

describe('the next controller', () => {
  it('is used when one is unreachable, fails, or is no controller; and kept while it works', async () => {
    for (const broken of [
      nobody,
      (await serve(() => error(503, 'unavailable'))).url,
      (await serve(() => ({ status: 200, body: 'hello' }))).url,
    ]) {
      const good = await serve(() => registered)
      const asking = client([broken, good.url])
      expect((await asking.call(nodeAgentRoutes.register, call)).kind).not.toBe('ok')
      expect((await asking.call(nodeAgentRoutes.register, call)).kind).toBe('ok')
      expect((await asking.call(nodeAgentRoutes.register, call)).kind).toBe('ok')
      expect(asking.current()).toBe(good.url)
    }
  })

  it('is not tried after a refusal', async () => {
    const first = await serve(() => error(401, 'wrong_token'))
    const asking = client([first.url, nobody])
    await asking.call(nodeAgentRoutes.register, call)
    expect(asking.current()).toBe(first.url)
  })
})

describe('a hedged request', () => {
  const hedged = { ...call, hedgeMs: 20 }

  it('goes to the next controller while one is frozen, and stays with the controller that answers', async () => {
    const frozen = await serve(() => null)
    const good = await serve(() => registered)
    const log = recordingLog()
    const asking = client([frozen.url, good.url], log)
    expect(await asking.call(nodeAgentRoutes.register, { ...hedged, timeoutMs: 60_000 })).toMatchObject({ kind: 'ok' })
    expect(asking.current()).toBe(good.url)
    expect(log.lines.map(({ message }) => message)).toEqual(['controller switched'])
    await asking.call(nodeAgentRoutes.register, hedged)
    expect([frozen.asked(), good.asked()]).toEqual([1, 2])
  })

  it('gets past any number of frozen controllers', async () => {
    const frozen = [await serve(() => null), await serve(() => null), await serve(() => null)] as const
    const good = await serve(() => registered)
    const urls = [frozen[0].url, frozen[1].url, frozen[2].url, good.url] as const
    expect(await client(urls).call(nodeAgentRoutes.register, { ...hedged, timeoutMs: 60_000 })).toMatchObject({ kind: 'ok' })
  })

  it('stays with the answer of the first controller, also when that is slow', async () => {
    const second = await serve(() => null)
    const slow = await serve(() => registered, { until: () => second.asked() > 0 })
    const asking = client([slow.url, second.url])
    expect(await asking.call(nodeAgentRoutes.register, hedged)).toMatchObject({ kind: 'ok' })
    expect(asking.current()).toBe(slow.url)
  })

  it('is not sent twice when the first controller fails at once: the caller paces its retries', async () => {
    const failing = await serve(() => error(503, 'unavailable'))
    const good = await serve(() => registered)
    const asking = client([failing.url, good.url])
    expect(await asking.call(nodeAgentRoutes.register, { ...hedged, hedgeMs: 60_000 })).toMatchObject({ kind: 'refused', status: 503 })
    expect(good.asked()).toBe(0)
    expect(asking.current()).toBe(good.url)
  })

  it('waits for the others when one of them fails', async () => {
    const failing = await serve(() => error(503, 'unavailable'))
    const slow = await serve(() => registered, { until: () => failing.asked() > 0 })
    expect(await client([slow.url, failing.url]).call(nodeAgentRoutes.register, hedged)).toMatchObject({ kind: 'ok' })
  })

  it('fails when no controller answers in time, and begins with another one the next time', async () => {
    const frozen = [await serve(() => null), await serve(() => null)] as const
    const asking = client([frozen[0].url, frozen[1].url])
    expect(await asking.call(nodeAgentRoutes.register, { ...hedged, timeoutMs: 100 })).toMatchObject({ kind: 'unreachable' })
    expect(asking.current()).toBe(frozen[1].url)
  })
})

describe('a clock that is off', () => {
  it("is corrected by the controller's time, once for all", async () => {
    const theirs = Date.now() - 7_200_000
    const { url, asked } = await serve(({ timestamp }) =>
      Math.abs(Date.parse(timestamp) - theirs) > 60_000
        ? error(401, 'clock_skew', { details: { now: new Date(theirs).toISOString() } })
        : registered,
    )
    const log = recordingLog()
    const asking = client([url], log)
    expect((await asking.call(nodeAgentRoutes.register, call)).kind).toBe('ok')
    expect((await asking.call(nodeAgentRoutes.register, call)).kind).toBe('ok')
    expect(asked()).toBe(3)
    expect(log.lines).toHaveLength(1)
  })

  it('is a refusal when it is not accepted even so', async () => {
    const { url, asked } = await serve(() => error(401, 'clock_skew', { details: { now: new Date().toISOString() } }))
    expect(await client([url]).call(nodeAgentRoutes.register, call)).toMatchObject({ kind: 'refused', code: 'clock_skew' })
    expect(asked()).toBe(2)
  })
})

describe('a registration that is older than the newest of this node', () => {
  it('is signed again with a later time, which is no reason to sign anything else so', async () => {
    const newest = Date.now() + 180_000
    const signed: number[] = []
    const { url } = await serve(({ timestamp }) => {
      signed.push(Date.parse(timestamp))
      const details = { newest: new Date(newest).toISOString() }
      return signed.length === 1 ? error(409, 'registration_outdated', { details }) : registered
    })
    const asking = client([url])
    expect((await asking.call(nodeAgentRoutes.register, call)).kind).toBe('ok')
    expect((await asking.call(nodeAgentRoutes.register, call)).kind).toBe('ok')
    expect(signed[1]).toBe(newest + 1)
    expect(signed[2]).toBeLessThan(newest)
  })

  it('is signed with the current time if that is later already', async () => {
    const before = Date.now()
    const signed: number[] = []
    const { url } = await serve(({ timestamp }) => {
      signed.push(Date.parse(timestamp))
      const details = { newest: new Date(before - 60_000).toISOString() }
      return signed.length === 1 ? error(409, 'registration_outdated', { details }) : registered
    })
    expect((await client([url]).call(nodeAgentRoutes.register, call)).kind).toBe('ok')
    expect(signed[1]).toBeGreaterThanOrEqual(before)
  })

  it('is a refusal when it is not accepted even so', async () => {
    const { url, asked } = await serve(() => error(409, 'registration_outdated', { details: { newest: new Date().toISOString() } }))
    expect(await client([url]).call(nodeAgentRoutes.register, call)).toMatchObject({ kind: 'refused', code: 'registration_outdated' })
    expect(asked()).toBe(2)
  })
})

it.each([
  ['5', 5000],
  [' 0 ', 0],
  ['Wed, 21 Oct 2015 07:28:00 GMT', null],
  ['-1', null],
  ['99999999', null],
  [undefined, null],
])('Retry-After %j is %s ms', (value, want) => {
  expect(parseRetryAfter(value)).toBe(want)
})
