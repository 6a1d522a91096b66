// New replicas that come up while others serve: asked something small first, by one controller at a time.
import { newId } from '@muster/host'
import { waitFor } from '@muster/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from '../serving/serving-world.ts'
import { answerJson, completion, refuse, type Behave, type StubGateway } from '../serving/stub-gateway.ts'

let world: ServingWorld
let [old, fresh]: [StubGateway, StubGateway] = [] as never
beforeEach(async () => {
  world = await startServingWorld()
  ;[old, fresh] = [await world.addNode('old'), await world.addNode('fresh')]
  await world.addModel('m')
  await world.addReplica('m', old)
  await waitFor(async () => (await world.chat('m')).ok, { what: 'the old replica to serve' })
})
afterEach(() => world[Symbol.asyncDispose]())

const checkedOf = async (id: string): Promise<Record<string, unknown>> =>
  (await world.db.query('select checked, state, check_holder from replicas where id = $1', [id])).rows[0]
const untilChecked = (id: string, checked: string): Promise<unknown> =>
  waitFor(async () => (await checkedOf(id))['checked'] === checked, { what: `the check to be ${checked}` })

/** Answers checks and others when it is let. */
function gate(answer: Behave): { behave: Behave; open: () => void } {
  const opened = Promise.withResolvers<void>()
  return {
    open: opened.resolve,
    async behave(request, response) {
      await Promise.race([opened.promise, request.aborted])
      await answer(request, response)
    },
  }
}
const wrong = (status: number, message: string): Behave => answerJson({ error: { message } }, status)

/** The same one would always go to the same replica. */
const another = (): object => ({ messages: [{ role: 'user', content: newId() }] })

/** How it behaves is said before it is there to be asked. */
async function addDue(behave: Behave): Promise<string> {
  fresh.behaveUnlessTold(behave)
  return await world.addReplica('m', fresh, { isDue: true })
}

describe('a new replica', () => {
  it('gets no requests until it has answered the check question', async () => {
    const held = gate(answerJson(completion('OK')))
    const id = await addDue(held.behave)
    await waitFor(() => fresh.requests.length > 0, { what: 'it to be asked' })
    for (let at = 0; at < 20; at += 1) expect((await world.chat('m')).status).toBe(200)
    expect(fresh.requests).toHaveLength(1)
    const [asked] = fresh.requests
    expect([asked?.path, JSON.parse(asked?.body ?? '')]).toMatchObject(['/v1/chat/completions', { model: 'm', max_tokens: 4 }])
    held.open()
    await untilChecked(id, 'passed')
    await waitFor(async () => (await world.chat('m', another())).ok && fresh.requests.length > 1, { what: 'it to get requests' })
    expect(await checkedOf(id)).toEqual({ checked: 'passed', state: 'ready', check_holder: null })
  })

  it('that fails is drained, its load shows the reason, and the others keep serving', async () => {
    const id = await addDue(wrong(500, 'the weights are broken'))
    await untilChecked(id, 'failed')
    expect(await checkedOf(id)).toMatchObject({ state: 'draining' })
    const { rows } = await world.db.query(`select state, failure from loads where model = 'm' and ordinal = 1`)
    expect(rows).toMatchObject([
      {
        state: 'failed',
        failure: { message: 'the check of the new replica failed: /v1/chat/completions answered 500: the weights are broken' },
      },
    ])
    for (let at = 0; at < 5; at += 1) expect((await world.chat('m')).status).toBe(200)
    expect(fresh.requests).toHaveLength(1)
  })

  it.each(['garbage', 'a page'])('that answers %s is drained too', async (what) => {
    const id = await addDue((_, response) => void response.writeHead(200).end(what === 'garbage' ? '\u0000%%' : '<html>'))
    await untilChecked(id, 'failed')
  })

  it('is checked with a path that it serves: embeddings when it serves nothing else', async () => {
    const id = await addDue(({ path }, response) =>
      path === '/v1/embeddings'
        ? void response.writeHead(200).end(JSON.stringify({ data: [{ embedding: [1] }] }))
        : void response.writeHead(404).end('{}'),
    )
    await untilChecked(id, 'passed')
    expect(fresh.requests.map(({ path }) => path)).toEqual(['/v1/chat/completions', '/v1/completions', '/v1/embeddings'])
  })

  it('that could not be reached is repeated', async () => {
    let count = 0
    const id = await addDue((request, response) =>
      (count += 1) < 3 ? refuse('unreachable')(request, response) : answerJson(completion('OK'))(request, response),
    )
    await untilChecked(id, 'passed')
    expect(count).toBe(3)
  })

  it('whose controller died is repeated by another one, which alone decides', async () => {
    const held = gate(answerJson(completion('OK')))
    const id = await addDue(held.behave)
    await waitFor(() => fresh.requests.length === 1, { what: 'it to be asked' })
    const { check_holder: first } = await checkedOf(id)
    const second = await world.addController()
    await world.controller.stop()
    await waitFor(() => fresh.requests.length === 2, { what: 'it to be asked again' })
    expect((await checkedOf(id))['check_holder']).not.toBe(first)
    held.open()
    await untilChecked(id, 'passed')
    await waitFor(async () => (await world.chat('m', another(), { at: second })).ok && fresh.requests.length > 2, {
      what: 'it to get requests',
    })
  })

  it('is run by one of two controllers', async () => {
    await world.addController()
    const held = gate(answerJson(completion('OK')))
    const ids = [await addDue(held.behave), await addDue(held.behave)]
    await waitFor(() => fresh.requests.length >= 2, { what: 'both to be asked' })
    held.open()
    for (const id of ids) await untilChecked(id, 'passed')
    expect(fresh.requests.filter(({ body }) => body.includes('Say OK.'))).toHaveLength(2)
  })
})
