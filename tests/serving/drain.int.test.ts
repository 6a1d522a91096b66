// A controller that is stopped finishes its answers first: load over two controllers that get SIGTERM, one or all in turn.
import { join } from 'node:path'
import {
  adminKey,
  boundMs,
  createApiClient,
  createTestDatabase,
  freePort,
  joinToken,
  makeTempDir,
  nodesOf,
  scripted,
  waitFor,
  type ApiClient,
  type RunningController,
  type ScriptedAnswer,
} from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startScriptedCluster, type ScriptedCluster } from './scripted-cluster.ts'
import { startServingWorld } from './serving-world.ts'
import { chunkOf } from './stub-gateway.ts'

let cluster: ScriptedCluster
let staying: RunningController
let leaving: RunningController

beforeAll(async () => {
  cluster = await startScriptedCluster({ postgresUrl: inject('postgresUrl'), args: ['--drain-delay', '1s', '--drain-timeout', '20s'] })
  staying = cluster.first
  leaving = cluster.second
  // The worker's session is a long poll of the controller that leaves.
  await cluster.startWorker({ name: 'a', join: leaving.url, token: joinToken })
  await waitFor(async () => (await nodesOf(staying.api)).some((node) => node.status === 'healthy'), { what: 'a worker' })
  await addModel(staying.api)
  for (const controller of cluster.controllers) expect(await stream(controller, { tokens: 1 })).toMatch(/data: \[DONE\]$/)
})
afterAll(() => cluster[Symbol.asyncDispose]())

async function addModel(api: ApiClient): Promise<void> {
  const installed = await api.post('/api/backends/install', { uri: `file://${cluster.artifact}`, name: 'scripted' })
  expect(installed.status, installed.text).toBe(202)
  await waitFor(async () => /"scripted"/.test((await api.get('/api/backends')).text), { what: 'the backend' })
  const put = await api.put('/api/models/talk', { name: 'talk', backend: 'scripted' })
  expect(put.status, put.text).toBe(201)
}
const begin = (controller: { url: string }, how: ScriptedAnswer): Promise<Response> =>
  fetch(`${controller.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'talk', stream: true, messages: [{ role: 'user', content: scripted(how) }] }),
  })
const stream = async (controller: { url: string }, how: ScriptedAnswer): Promise<string> =>
  (await (await begin(controller, how)).text()).trimEnd()

/** Clients behind a load balancer that uses the controllers whose last /readyz was 200. */
function startLoad(clients: number) {
  const ready = new Set<RunningController>(cluster.controllers)
  const failures: string[] = []
  let answered = 0
  let isOver = false
  const watchReadiness = async (controller: RunningController): Promise<void> => {
    while (!isOver) {
      const answer = await controller.api.get('/readyz').catch(() => null)
      if (answer?.status === 200) ready.add(controller)
      else ready.delete(controller)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const ask = async (client: number): Promise<void> => {
    for (let turn = client; !isOver; turn += 1) {
      const usable = [...ready]
      const controller = usable[turn % usable.length] ?? staying
      const text = await stream(controller, { tokens: 15, delay_ms: 100 }).catch(String)
      answered += 1
      if (!text.endsWith('data: [DONE]')) failures.push(`${controller === leaving ? 'leaving' : 'staying'}: ${text.slice(-200)}`)
    }
  }
  const running = [...cluster.controllers.map(watchReadiness), ...Array.from({ length: clients }, (_, client) => ask(client))]
  return {
    failures,
    answered: () => answered,
    uses: (controller: RunningController) => ready.has(controller),
    async end(): Promise<void> {
      isOver = true
      await Promise.all(running)
    },
  }
}

async function untilInFlight(controller: RunningController, count: number): Promise<void> {
  const read = async (): Promise<number> =>
    Number(/^muster_inference_in_flight (\d+)$/m.exec((await controller.api.get('/metrics')).text)?.[1])
  await waitFor(async () => (await read()) >= count, { what: `${count} requests in flight` })
}

it('controllers that are all restarted one by one under load fail no request', async () => {
  const load = startLoad(4)
  await waitFor(() => load.answered() >= 4, { what: 'some answers' })
  for (const controller of cluster.controllers) {
    await untilInFlight(controller, 1)
    controller.process.kill('SIGTERM')
    expect(await controller.process.exited).toEqual({ code: 0, signal: null })
    await cluster.restartController(controller)
    // The load balancer has to see it before the next one goes.
    await waitFor(() => load.uses(controller), { what: 'the load balancer to use it again' })
  }
  for (const controller of cluster.controllers) await untilInFlight(controller, 1)
  await load.end()
  expect(load.failures).toEqual([])
})

it('a controller that is stopped under load fails no request, and exits after its last stream', async () => {
  const load = startLoad(8)
  await waitFor(() => load.answered() >= 8, { what: 'some answers' })
  const long = stream(leaving, { tokens: 35, delay_ms: 100 }).then((text) => ({ text, at: performance.now() }))
  const events = await fetch(`${leaving.url}/api/events`, { headers: { authorization: `Bearer ${adminKey}` } })
  expect(events.status).toBe(200)
  await untilInFlight(leaving, 2)
  leaving.process.kill('SIGTERM')

  const drained = await waitFor(
    async () => {
      const answer = await fetch(`${leaving.url}/readyz`)
      return answer.status === 503 ? { body: await answer.json(), connection: answer.headers.get('connection') } : null
    },
    { what: '/readyz to be 503' },
  )
  expect(drained).toEqual({ body: { status: 'draining' }, connection: 'close' })
  const late = await begin(leaving, { tokens: 2 })
  expect([late.status, late.headers.get('connection')]).toEqual([200, 'close'])
  expect((await late.text()).trimEnd()).toMatch(/data: \[DONE\]$/)
  expect((await leaving.api.get('/api/nodes')).status).toBe(200)

  // Rejects unless the response is complete.
  await events.text()
  expect(leaving.process.hasExited()).toBe(false)
  const { text, at } = await long
  expect(text).toMatch(/data: \[DONE\]$/)
  expect(await leaving.process.exited).toEqual({ code: 0, signal: null })
  expect(performance.now() - at).toBeLessThan(boundMs(3_000))
  await load.end()
  expect(load.failures).toEqual([])
})

it('a second signal during the drain ends the controller at once', async () => {
  await leaving.process.exited
  await cluster.restartController(leaving)
  const cut = stream(leaving, { never_end: true }).catch(String)
  await untilInFlight(leaving, 1)
  leaving.process.kill('SIGTERM')
  // After the delay of one second it is a second signal, not a repetition of the first.
  await waitFor(async () => (await fetch(`${leaving.url}/healthz`).catch(() => null)) === null, { what: 'no new connections' })
  expect(leaving.process.hasExited()).toBe(false)
  leaving.process.kill('SIGTERM')
  const begun = performance.now()
  expect(await leaving.process.exited).toEqual({ code: 1, signal: null })
  expect(performance.now() - begun).toBeLessThan(boundMs(2_000))
  await cut
})

it('followed logs end with the drain, and a stream that is open after its timeout ends with an error event', async () => {
  await using world = await startServingWorld({ flags: { 'drain-timeout': '200ms' } })
  const node = await world.addNode('gpu-1')
  node.behaveUnlessTold((_, response) => void response.writeHead(200, { 'content-type': 'text/event-stream' }).write(chunkOf('one')))
  node.logs((_, response) => void response.write('one\n'))
  await world.serve('endless', [node])
  const headers = { authorization: `Bearer ${adminKey}` }
  const logs = await fetch(`${world.controller.url}/api/nodes/${node.nodeId}/logs?follow=true`, { headers })
  const response = await world.chat('endless', { stream: true })
  let text = ''
  const read = async (): Promise<void> => {
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) text += chunk
  }
  const reading = read().catch(() => undefined)
  await world.controller.controller.drain()
  // Rejects unless the response is complete.
  expect(await logs.text()).toBe(': connected\n\ndata: one\n\n')
  expect(text).not.toContain('error')
  await world.controller.stop()
  await reading
  expect(text).toContain('"code":"backend_cut"')
})

it('`muster up` finishes the streams of its own worker before it stops the worker', async () => {
  await using directory = await makeTempDir()
  await using database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  const url = `http://127.0.0.1:${await freePort()}`
  const up = await cluster.processes.muster(['up', '--port', new URL(url).port, '--data-dir', join(directory.path, 'data')], {
    env: { MUSTER_DATABASE_URL: database.url, MUSTER_ADMIN_KEY: adminKey },
  })
  await up.waitForOutput(/curl/)
  await addModel(createApiClient(url, adminKey))
  expect(await stream({ url }, { tokens: 1 })).toMatch(/data: \[DONE\]$/)
  const response = await begin({ url }, { tokens: 15, delay_ms: 100 })
  up.kill('SIGTERM')
  let text = ''
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk
    // In the first half of the answer; at its end the worker stops.
    if (text.split('data: ').length < 8) expect(up.output()).not.toMatch(/replica changed state.* state=draining/)
  }
  expect(text.trimEnd()).toMatch(/data: \[DONE\]$/)
  expect(await up.exited).toEqual({ code: 0, signal: null })
  // The end of its own worker is no failure of the model.
  expect(up.output()).not.toMatch(/load failed/)
})
