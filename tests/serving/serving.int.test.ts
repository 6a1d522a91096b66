// The way of a request through a controller to a replica, against gateways that do what real ones and worse ones do.
import { newId } from '@muster/host'
import OpenAI from 'openai'
import { isLongRun, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from './serving-world.ts'
import { answerJson, chunkOf, completion, refuse, type StubGateway } from './stub-gateway.ts'

let world: ServingWorld
let node: StubGateway
let replica: string

beforeAll(async () => {
  world = await startServingWorld({ flags: { 'expose-routing': true } })
  node = await world.addNode('gpu-1')
  await world.addModel('org/tiny')
  replica = await world.addReplica('org/tiny', node)
  await waitFor(async () => (await world.chat('org/tiny')).status === 200, { what: 'the first answer' })
})
afterAll(() => world[Symbol.asyncDispose]())

const streams = isLongRun ? 2_000 : 200

const client = () => new OpenAI({ baseURL: `${world.controller.url}/v1`, apiKey: 'none', maxRetries: 0 })

describe('the OpenAI API', () => {
  it('answers a whole completion, and names the replica', async () => {
    node.behave(replica, answerJson(completion('hi there')))
    const { data, response } = await client()
      .chat.completions.create({ model: 'org/tiny', messages: [{ role: 'user', content: 'hello' }] })
      .withResponse()
    expect(data.choices[0]?.message.content).toBe('hi there')
    expect(data.usage?.total_tokens).toBe(8)
    expect(response.headers.get('x-muster-node')).toBe(node.nodeId)
    expect(response.headers.get('x-muster-replica')).toBe(replica)
    expect(response.headers.get('x-muster-reason')).toBeTruthy()
    expect(response.headers.get('x-request-id')).toMatch(/^[a-z2-7]{20}$/)
    expect(response.headers.get('server-timing')).toMatch(/^route;dur=[\d.]+, backend;dur=[\d.]+$/)
  })

  it('streams, each event when it comes', async () => {
    const second = Promise.withResolvers<void>()
    node.behave(replica, async (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(chunkOf('one'))
      await second.promise
      response.end(`${chunkOf('two')}data: [DONE]\n\n`)
    })
    const stream = await client().chat.completions.create({ model: 'org/tiny', messages: [], stream: true })
    const seen: (string | null | undefined)[] = []
    for await (const chunk of stream) {
      seen.push(chunk.choices[0]?.delta.content)
      second.resolve()
    }
    expect(seen).toEqual(['one', 'two'])
  })

  it(`carries ${streams} streams at once, each whole and none with the text of another`, async () => {
    const all = Promise.withResolvers<void>()
    node.behave(replica, async ({ body }, response) => {
      const { user } = JSON.parse(body) as { user: string }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(chunkOf(`${user} begins`))
      await all.promise
      response.end(`${chunkOf(`${user} ends`)}data: [DONE]\n\n`)
    })
    const texts = Array.from({ length: streams }, async (_, at) =>
      (await world.chat('org/tiny', { stream: true, user: `reader-${at}` })).text(),
    )
    await waitFor(() => node.open(replica) === streams, { what: `${streams} streams to be open` })
    all.resolve()
    for (const [at, text] of (await Promise.all(texts)).entries())
      expect(text).toBe(`${chunkOf(`reader-${at} begins`)}${chunkOf(`reader-${at} ends`)}data: [DONE]\n\n`)
  })

  it('hands on the body byte for byte, and no key of the client', async () => {
    node.behave(replica, answerJson(completion('x')))
    const body = `{"model" :"org/tiny",\n "x": 1e999, "messages":[ ],"ünknown":"\\ud83d"}`
    const response = await fetch(`${world.controller.url}/v1/completions?x=1`, {
      method: 'POST',
      body,
      headers: { authorization: 'Bearer sk-secret' },
    })
    expect(response.status).toBe(200)
    const got = node.requests.at(-1)
    expect(got?.body).toBe(body)
    expect(got?.path).toBe('/v1/completions')
    expect(JSON.stringify(got?.headers)).not.toContain('sk-secret')
    expect(got?.headers['x-request-id']).toBe(response.headers.get('x-request-id'))
  })

  it('lists models, and one of them also when its name has a slash', async () => {
    const listed: string[] = []
    for await (const model of client().models.list()) listed.push(model.id)
    expect(listed).toEqual(['org/tiny'])
    expect(await client().models.retrieve('org/tiny')).toMatchObject({ id: 'org/tiny', object: 'model' })
    await expect(client().models.retrieve('nothing')).rejects.toMatchObject({ status: 404, code: 'model_not_found' })
  })
})

describe('a replica that does not take a request', () => {
  it.each(['gone', 'draining', 'unreachable'] as const)(
    'G9 that is %s: another one is asked, and the client notices nothing',
    async (why) => {
      const [first, second] = [await world.addNode('a'), await world.addNode('b')]
      const model = `two-${why}-${newId()}`
      await world.addModel(model)
      const bad = await world.addReplica(model, first)
      const good = await world.addReplica(model, second)
      first.behave(bad, refuse(why))
      // Conversations of their own: some of them belong to the bad one.
      const ask = (): Promise<Response> => world.chat(model, { messages: [{ role: 'user', content: newId() }] })
      await waitFor(async () => (await ask()).status === 200, { what: 'an answer' })
      for (let i = 0; i < 12; i += 1) {
        const response = await ask()
        expect([response.status, response.headers.get('x-muster-replica')]).toEqual([200, good])
      }
      await waitFor(async () => (await ask()).ok && first.requests.length > 0, { what: 'the bad one to have been asked' })
    },
  )
})
