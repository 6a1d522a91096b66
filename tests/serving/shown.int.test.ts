// The data path as seen from outside: statistics, metrics, logs of nodes.
import { adminKey, createApiClient, readEvents, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from './serving-world.ts'
import { answerJson, chunkOf, completion, type StubGateway } from './stub-gateway.ts'

let world: ServingWorld
let node: StubGateway
let replica: string

beforeAll(async () => {
  world = await startServingWorld()
  node = await world.addNode('gpu-1')
  await world.addModel('tiny')
  replica = await world.addReplica('tiny', node)
  await waitFor(async () => (await world.chat('tiny')).status === 200, { what: 'the first answer' })
})
afterAll(() => world[Symbol.asyncDispose]())

interface Bucket {
  readonly model: string
  readonly node_id: string
  readonly requests: number
  readonly errors: number
  readonly client_errors: number
  readonly overloaded: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
}
async function sums() {
  const { body } = await world.controller.api.get('/api/stats')
  const buckets = (body['buckets'] as unknown as Bucket[]).filter((bucket) => bucket.model === 'tiny' && bucket.node_id === node.nodeId)
  const sum = (field: Exclude<keyof Bucket, 'model' | 'node_id'>): number => buckets.reduce((all, bucket) => all + bucket[field], 0)
  return {
    requests: sum('requests'),
    errors: sum('errors'),
    client_errors: sum('client_errors'),
    overloaded: sum('overloaded'),
    prompt_tokens: sum('prompt_tokens'),
    completion_tokens: sum('completion_tokens'),
  }
}

describe('statistics', () => {
  it('count requests, errors and tokens per model and node, and are sent as events', async () => {
    const events = await readEvents(world.controller.api)
    node.behave(replica, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(`${chunkOf('a')}${chunkOf('b')}data: [DONE]\n\n`)
    })
    await (await world.chat('tiny', { stream: true })).text()
    node.behave(replica, answerJson({ error: { message: 'no' } }, 500))
    expect((await world.chat('tiny')).status).toBe(500)
    for (const status of [400, 429, 429]) {
      node.behave(replica, answerJson({ error: { message: 'no' } }, status))
      expect((await world.chat('tiny')).status).toBe(status)
    }
    // One whole answer at the start, with 3 and 5 tokens; a stream of three events; three kinds of errors.
    const seen = await waitFor(
      async () => {
        const now = await sums()
        return now.requests >= 6 && now
      },
      { what: 'the buckets to be written' },
    )
    expect(seen).toEqual({ requests: 6, errors: 1, client_errors: 1, overloaded: 2, prompt_tokens: 3, completion_tokens: 8 })
    const event = await events.until('statistics', (each) => each.event === 'stats')
    expect(event.data).toMatchObject({ bucket_seconds: 10, at: expect.any(String), buckets: expect.any(Array) })
    await events.close()
  })

  it('add up over controllers', async () => {
    const at = '2026-01-01T00:00:00.000Z'
    const add = `insert into stats_buckets (at, model, node_id, requests) values ($1, 'old', 'n', 1) on conflict (at, model, node_id) do update set requests = stats_buckets.requests + 1`
    await world.db.query(add, [at])
    await world.db.query(add, [at])
    const { body } = await world.controller.api.get(`/api/stats?since=${encodeURIComponent(at)}`)
    expect((body['buckets'] as unknown as Bucket[]).find((bucket) => bucket.model === 'old')).toMatchObject({ requests: 2 })
  })

  it('are refused for a time that is none', async () => {
    expect((await world.controller.api.get('/api/stats?since=yesterday')).status).toBe(400)
  })
})

describe('metrics', () => {
  it('count requests by model, node and outcome', async () => {
    const { text } = await world.controller.api.get('/metrics')
    expect(text).toContain(`muster_inference_requests_total{model="tiny",node="${node.nodeId}",outcome="ok"} 2`)
    expect(text).toContain(`muster_inference_requests_total{model="tiny",node="${node.nodeId}",outcome="error"} 1`)
    expect(text).toContain(`muster_inference_requests_total{model="tiny",node="${node.nodeId}",outcome="client_error"} 1`)
    expect(text).toContain(`muster_inference_requests_total{model="tiny",node="${node.nodeId}",outcome="overloaded"} 2`)
    expect(text).toContain('muster_inference_failures_total{model="tiny",reason="429"} 2')
    expect(text).toMatch(/muster_inference_first_token_seconds_count\{model="tiny"\} 2/)
    expect(text).toMatch(/^muster_inference_in_flight 0$/m)
  })

  it('measure the time to the first token of a stream, not to its headers', async () => {
    const token = Promise.withResolvers<void>()
    node.behave(replica, async (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n')
      await token.promise
      response.end(`${chunkOf('a')}data: [DONE]\n\n`)
    })
    const below = async (): Promise<number> => {
      const { text } = await world.controller.api.get('/metrics')
      return Number(/^muster_engine_first_token_seconds_bucket\{le="0.5",model="tiny"\} (\d+)$/m.exec(text)?.[1])
    }
    const before = await below()
    const response = await world.chat('tiny', { stream: true })
    const headersAt = performance.now()
    await waitFor(() => performance.now() - headersAt > 600, { what: 'more than half a second after the headers' })
    token.resolve()
    expect(await response.text()).toContain('[DONE]')
    expect(await below()).toBe(before)
  })
})

describe('a replica that cannot be relied on', () => {
  const listed = async (model: string): Promise<Record<string, unknown>[]> =>
    (await world.controller.api.get(`/api/models/${model}/replicas`)).body['replicas'] as unknown as Record<string, unknown>[]

  it('whose engine is sick but alive gets no requests until a probe succeeds, and shows why', async () => {
    const other = await world.addNode('gpu-2')
    const [sick = '', well = ''] = await world.serve('two', [node, other], { policy: 'least' })
    const events = await readEvents(world.controller.api)
    node.behave(sick, answerJson({ error: { message: 'CUDA error' } }, 500))
    const statuses: number[] = []
    await waitFor(
      async () => {
        statuses.push((await world.chat('two')).status)
        return statuses.filter((status) => status === 500).length === 3
      },
      { what: 'three failures' },
    )
    for (let i = 0; i < 6; i += 1) expect((await world.chat('two')).status).toBe(200)
    const shown = (await listed('two')).find(({ id }) => id === sick)
    expect(shown).toMatchObject({
      state: 'ready',
      out_of_rotation: { since: expect.any(String), reason: expect.stringMatching(/it answered 500/) },
    })
    await events.until(
      'the replica out of rotation',
      ({ event, data }) => event === 'replica' && data['id'] === sick && data['out_of_rotation'] !== null,
    )
    expect((await listed('two')).find(({ id }) => id === well)).toMatchObject({ out_of_rotation: null })
    // The other one alone fails too: the sick one is better than none.
    other.behave(well, answerJson({}, 500))
    for (let i = 0; i < 4; i += 1) expect((await world.chat('two')).status).toBe(500)
    other.behave(well, answerJson(completion('well')))
    node.behave(sick, answerJson(completion('healed')))
    await waitFor(async () => (await listed('two')).every((each) => each['out_of_rotation'] === null), { what: 'both to be back' })
    await events.close()
  })

  it('whose node was not heard shows that its state is unknown, and since when', async () => {
    const quiet = await world.addNode('quiet')
    await world.serve('quiet', [quiet])
    expect(await listed('quiet')).toMatchObject([{ state: 'ready', reachable: true, unknown_since: null }])
    // The bus is frozen: no heartbeat for eight seconds and a half, nor a verdict on the node yet.
    const at = new Date(Date.now() - 9_000).toISOString()
    await world.db.query('update node_pulses set last_seen_at = $2 where node_id = $1', [quiet.nodeId, at])
    expect(await listed('quiet')).toMatchObject([{ state: 'ready', reachable: false, unknown_since: at }])
  })
})

describe('logs of a node', () => {
  it('are given as text, for the model that was named', async () => {
    node.logs((url, response) => response.end(`asked ${url}\n`))
    const answer = await world.controller.api.get(`/api/nodes/${node.nodeId}/logs?model=tiny`)
    expect([answer.status, answer.text]).toEqual([200, 'asked /logs?follow=false&model=tiny\n'])
  })

  it('are followed as events, line by line, until the reader goes', async () => {
    const gone = Promise.withResolvers<void>()
    node.logs((_, response) => {
      response.on('close', gone.resolve)
      response.write('one\ntw')
      setImmediate(() => response.write('o\r\n'))
    })
    const reading = new AbortController()
    const response = await fetch(`${world.controller.url}/api/nodes/${node.nodeId}/logs?follow=true`, {
      headers: { authorization: `Bearer ${adminKey}` },
      signal: reading.signal,
    })
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
    let text = ''
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk)
      if (text.includes('two')) break
    }
    expect(text).toBe(': connected\n\ndata: one\n\ndata: two\n\n')
    reading.abort()
    await gone.promise
  })

  it('of an unknown node, of an agent, and of a node that does not answer', async () => {
    expect((await world.controller.api.get('/api/nodes/nobody/logs')).status).toBe(404)
    expect((await createApiClient(world.controller.url).get(`/api/nodes/${node.nodeId}/logs`)).status).toBe(401)
    const agent = await world.addNode('agent')
    await world.db.query(`update nodes set node_type = 'agent' where id = $1`, [agent.nodeId])
    expect(await world.controller.api.get(`/api/nodes/${agent.nodeId}/logs`)).toMatchObject({ status: 200, text: '' })
    const away = await world.addNode('away')
    await away.stop()
    const answer = await world.controller.api.get(`/api/nodes/${away.nodeId}/logs`)
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '2'])
    expect(answer.text).toMatch(/cannot read the logs of node away/)
  })
})
