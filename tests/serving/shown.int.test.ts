// The data path as seen from outside: statistics, metrics, logs of nodes.
import { adminKey, createApiClient, readEvents, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from './serving-world.ts'
import { answerJson, chunkOf, type StubGateway } from './stub-gateway.ts'

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
  readonly prompt_tokens: number
  readonly completion_tokens: number
}
async function sums(): Promise<Record<'requests' | 'errors' | 'prompt_tokens' | 'completion_tokens', number>> {
  const { body } = await world.controller.api.get('/api/stats')
  const buckets = (body['buckets'] as unknown as Bucket[]).filter((bucket) => bucket.model === 'tiny' && bucket.node_id === node.nodeId)
  const sum = (field: 'requests' | 'errors' | 'prompt_tokens' | 'completion_tokens'): number =>
    buckets.reduce((all, bucket) => all + bucket[field], 0)
  return {
    requests: sum('requests'),
    errors: sum('errors'),
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
    // One whole answer at the start, with 3 and 5 tokens; a stream of three events; an error.
    const seen = await waitFor(
      async () => {
        const now = await sums()
        return now.requests >= 3 && now
      },
      { what: 'the buckets to be written' },
    )
    expect(seen).toEqual({ requests: 3, errors: 1, prompt_tokens: 3, completion_tokens: 8 })
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
    expect(text).toMatch(/muster_inference_first_byte_seconds_count\{model="tiny"\} 3/)
    expect(text).toMatch(/^muster_inference_in_flight 0$/m)
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
