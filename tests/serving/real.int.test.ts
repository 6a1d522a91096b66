// Everything real: two controllers, two workers, processes of a backend behind their gateways; and what kills them.
import OpenAI from 'openai'
import { boundMs, joinToken, nodesOf, scripted, waitFor, type RunningController, type ScriptedAnswer } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startScriptedCluster, type ScriptedCluster } from './scripted-cluster.ts'

let cluster: ScriptedCluster

beforeAll(async () => {
  cluster = await startScriptedCluster({ postgresUrl: inject('postgresUrl'), args: ['--expose-routing'] })
  const { api, url } = cluster.first
  for (const name of ['a', 'b']) await cluster.startWorker({ name, join: url, token: joinToken })
  await waitFor(async () => (await nodesOf(api)).filter((node) => node.status === 'healthy').length === 2, {
    what: 'two workers',
  })
  await expectOk(api.post('/api/backends/install', { uri: `file://${cluster.artifact}`, name: 'scripted' }))
  await waitFor(
    async () => {
      const { body } = await api.get('/api/backends')
      return (body['backends'] as unknown as { nodes: unknown[] }[])[0]?.nodes.length === 2
    },
    { what: 'the backend to be on both nodes' },
  )
})
afterAll(() => cluster[Symbol.asyncDispose]())

async function expectOk(asked: Promise<{ status: number; text: string }>): Promise<void> {
  const { status, text } = await asked
  expect(status, text).toBeLessThan(300)
}
const putModel = (name: string, more: object = {}) =>
  expectOk(cluster.first.api.put(`/api/models/${name}`, { name, backend: 'scripted', ...more }))
const chat = (
  model: string,
  how: ScriptedAnswer = { tokens: 2 },
  more: { controller?: RunningController; stream?: boolean; signal?: AbortSignal } = {},
) =>
  fetch(`${(more.controller ?? cluster.first).url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: more.stream ?? false, messages: [{ role: 'user', content: scripted(how) }] }),
    ...(more.signal === undefined ? {} : { signal: more.signal }),
  })

interface Answer {
  readonly scripted: { readonly model: string; readonly pid: number; readonly replica_id: string; readonly aborted: number }
}
interface ShownReplica {
  readonly id: string
  readonly state: string
  readonly reachable: boolean
  readonly unknown_since: string | null
}
async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text()
  expect(response.status, text).toBe(200)
  return JSON.parse(text) as Answer
}

describe('a cold model', () => {
  it('G1 60 concurrent requests over two controllers load the model once, and all are answered', async () => {
    await putModel('cold')
    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        const controller = [cluster.first, cluster.second][i % 2]
        return await answerOf(await chat('cold', { tokens: 2 }, controller === undefined ? {} : { controller }))
      }),
    )
    expect(new Set(answers.map((answer) => answer.scripted.pid)).size).toBe(1)
    expect(new Set(answers.map((answer) => answer.scripted.model))).toEqual(new Set(['cold']))
  })

  it("answers OpenAI's client, whole and streamed, with usage", async () => {
    const client = new OpenAI({ baseURL: `${cluster.first.url}/v1`, apiKey: 'none', maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: scripted({ tokens: 3, say: 'hi ' }) }]
    const whole = await client.chat.completions.create({ model: 'cold', messages })
    expect(whole.choices[0]?.message.content).toContain('hi')
    const stream = await client.chat.completions.create({ model: 'cold', messages, stream: true, stream_options: { include_usage: true } })
    let text = ''
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
    expect(text).toContain('hi hi hi')
  })

  it('that cannot start: every request gets 503 with the cause', async () => {
    await putModel('broken', { options: { crash_at_start: 'no such tensor', exit_code: 3 } })
    const responses = await Promise.all(Array.from({ length: 5 }, () => chat('broken')))
    for (const response of responses) {
      const text = await response.text()
      expect([response.status, text]).toEqual([503, expect.stringMatching(/no such tensor.*"type":"model_load_failed"/)])
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    }
  })
})

describe('under load', () => {
  it('G6 G10 S3.11 a backend that is killed: streams end with an error, no other request gets a wrong answer, and the model is served again', async () => {
    // By prefix all streams may go to the process that is not killed.
    await putModel('loaded', { scheduling: { min_replicas: 2, max_replicas: 2, policy: 'least' } })
    await waitFor(
      async () => {
        const { body } = await cluster.first.api.get('/api/models/loaded')
        return body['replicas_ready'] === 2
      },
      { what: 'two replicas' },
    )
    // A replica that is ready is routed to a moment later.
    const pidsOfFour = async (): Promise<number[]> =>
      await Promise.all(
        Array.from({ length: 4 }, async () => (await answerOf(await chat('loaded', { tokens: 5, delay_ms: 20 }))).scripted.pid),
      )
    await waitFor(async () => new Set(await pidsOfFour()).size === 2, { what: 'both replicas to answer' })
    const { pid } = (await answerOf(await chat('loaded'))).scripted
    // A stream without its first byte would be asked of the other process, and end well.
    const begun = await Promise.all(Array.from({ length: 20 }, () => chat('loaded', { tokens: 400, delay_ms: 10 }, { stream: true })))
    const streams = begun.map((response) => response.text().catch(() => 'cut'))
    let stop = false
    const unary: number[] = []
    const asking = Array.from({ length: 4 }, async () => {
      while (!stop) unary.push((await answerOf(await chat('loaded'))).scripted.pid)
    })
    process.kill(pid, 'SIGKILL')
    const ended = await Promise.all(streams)
    for (const text of ended) {
      const isWhole = text.includes('[DONE]')
      expect(isWhole ? text.includes('"error"') : text.includes('"code":"backend_cut"') || text === 'cut').toBe(!isWhole)
    }
    expect(ended.some((text) => !text.includes('[DONE]'))).toBe(true)
    expect(ended.some((text) => text.includes('[DONE]'))).toBe(true)
    // Without one failed request all the while, and then by two processes again.
    await waitFor(() => new Set(unary.slice(-50)).size === 2 && !unary.slice(-50).includes(pid), {
      what: 'a new process to answer too',
    })
    stop = true
    await Promise.all(asking)
    await waitFor(async () => (await inFlight()) === 0, { what: 'nothing to be in flight' })
  })

  it('G5 a client that goes ends its generation at the backend', async () => {
    const leaving = new AbortController()
    const response = await chat('cold', { never_end: true, delay_ms: 10 }, { stream: true, signal: leaving.signal })
    const reader = response.body?.getReader()
    await reader?.read()
    const before = (await answerOf(await chat('cold'))).scripted.aborted
    leaving.abort()
    await reader?.cancel().catch(() => undefined)
    await waitFor(async () => (await answerOf(await chat('cold'))).scripted.aborted > before, {
      what: 'the backend to hear of it',
      timeoutMs: boundMs(3_000),
    })
  })

  it('with the bus frozen a dead engine is shown as unknown, with since when, and engines that live are still asked', async () => {
    for (const model of ['dying', 'living']) await putModel(model)
    const { pid, replica_id: id } = (await answerOf(await chat('dying'))).scripted
    for (const controller of cluster.controllers) await answerOf(await chat('living', { tokens: 2 }, { controller }))
    const shownBy = async ({ api }: RunningController): Promise<ShownReplica | undefined> =>
      ((await api.get('/api/models/dying/replicas')).body['replicas'] as unknown as ShownReplica[]).find((replica) => replica.id === id)
    expect(await shownBy(cluster.first)).toMatchObject({ state: 'ready', reachable: true, unknown_since: null })
    await cluster.nats.kill('SIGSTOP')
    try {
      const begun = performance.now()
      const frozenAt = Date.now()
      process.kill(pid, 'SIGKILL')
      for (const controller of cluster.controllers) {
        const isUnknown = async (): Promise<boolean> => typeof (await shownBy(controller))?.unknown_since === 'string'
        await waitFor(isUnknown, { what: 'the replica to be unknown' })
        const shown = await shownBy(controller)
        expect(shown).toMatchObject({ reachable: false })
        // A heartbeat on its way is stored within a second.
        expect(Date.parse(shown?.unknown_since ?? '')).toBeLessThan(frozenAt + boundMs(1_000))
      }
      expect(performance.now() - begun).toBeLessThan(boundMs(10_000))
      for (const controller of cluster.controllers)
        expect((await answerOf(await chat('living', { tokens: 2 }, { controller }))).scripted.model).toBe('living')
    } finally {
      await cluster.nats.kill('SIGCONT')
    }
    await waitFor(async () => ((await shownBy(cluster.first))?.state ?? 'exited') === 'exited', { what: 'the exit to be reported' })
    expect((await answerOf(await chat('dying'))).scripted.pid).not.toBe(pid)
  })

  it('G8 a controller that is killed: the other one serves on, and counts nothing of it', async () => {
    const other = cluster.second
    const cut = chat('cold', { never_end: true, delay_ms: 10 }, { stream: true, controller: other }).then((response) => response.text())
    await waitFor(async () => (await inFlight(other)) === 1, { what: 'a stream over the other one' })
    other.process.kill('SIGKILL')
    await expect(cut).rejects.toThrow()
    expect((await answerOf(await chat('cold'))).scripted.model).toBe('cold')
    expect(await inFlight()).toBe(0)
  })
})

async function inFlight({ api }: RunningController = cluster.first): Promise<number> {
  return Number(/^muster_inference_in_flight (\d+)$/m.exec((await api.get('/metrics')).text)?.[1])
}
