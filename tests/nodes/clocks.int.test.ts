// Clocks that are an hour off: one controller ahead, one right, a worker behind. Machines agree by the time of the database.
import { join } from 'node:path'
import {
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  scriptedBackend,
  startCluster,
  startNats,
  waitFor,
  type RunningController,
  type StartedProcess,
} from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'

const hourMs = 3_600_000
/** Enough for a busy machine, and far from an hour. */
const toleranceMs = 60_000
const ending = new AsyncDisposableStack()
let ahead: RunningController
let right: RunningController
let startWorker: (options: { join: string; token?: string }) => Promise<StartedProcess>
let worker: StartedProcess

/** For a process whose wall clock is off by this much. */
function clockOff(ms: number): Record<string, string> {
  const source = `const Right = Date
    globalThis.Date = class extends Right {
      constructor(...at) { at.length === 0 ? super(Right.now() + ${ms}) : super(...at) }
      static now() { return Right.now() + ${ms} }
    }`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` }
}

beforeAll(async () => {
  const { path: directory } = ending.use(await makeTempDir())
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  ending.defer(() => database.drop())
  const nats = ending.use(await startNats())
  const processes = ending.use(createProcesses())
  const start = async (name: string, env: Record<string, string>) =>
    await startCluster({
      ...{ processes, directory: join(directory, name), databaseUrl: database.url, natsUrl: nats.url, controllers: 1, env },
      args: ['--auto-approve', '--heartbeat-interval', '500ms', '--node-timeout', '3s'],
    })
  const [wrong, good] = await Promise.all([start('ahead', clockOff(hourMs)), start('right', {})])
  const [first, second] = [wrong.controllers[0], good.controllers[0]]
  if (first === undefined || second === undefined) throw new Error('each cluster has a controller')
  ahead = first
  right = second
  startWorker = (options) => wrong.startWorker({ name: 'behind', env: clockOff(-hourMs), ...options })
  worker = await startWorker({ join: ahead.url, token: joinToken })
  await untilHealthy()
})
afterAll(() => ending.disposeAsync())

const untilHealthy = async (): Promise<void> => {
  for (const { api } of [ahead, right])
    await waitFor(async () => (await nodesOf(api))[0]?.status === 'healthy', { what: 'a healthy node', timeoutMs: 20_000 })
}

/** Everything that a status showed wrongly, while the worker runs. */
function watchStatus() {
  const wrong: string[] = []
  let reads = 0
  let isOver = false
  const read = async ({ api }: RunningController): Promise<void> => {
    const [node] = await nodesOf(api)
    const ageMs = Math.abs(Date.now() - Date.parse(node?.last_seen_at ?? ''))
    if (node?.status !== 'healthy') wrong.push(`${node?.status}: ${node?.status_reason}`)
    if (!(ageMs < toleranceMs)) wrong.push(`last seen at ${node?.last_seen_at}`)
    reads += 1
  }
  const running = (async () => {
    while (!isOver) await Promise.all([ahead, right].map(read)).catch((error: unknown) => wrong.push(String(error)))
  })()
  return {
    reads: () => reads,
    wrong,
    async [Symbol.asyncDispose](): Promise<void> {
      isOver = true
      await running
    },
  }
}

const ask = (controller: RunningController): Promise<Response> =>
  fetch(`${controller.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'talk', messages: [{ role: 'user', content: 'hello' }] }),
  })

it('clocks that are an hour off disturb neither an install nor a request, and no status is false', async () => {
  await using watch = watchStatus()
  const installed = await ahead.api.post('/api/backends/install', { uri: `file://${scriptedBackend}`, name: 'scripted' })
  expect(installed.status, installed.text).toBe(202)
  const path = `/api/operations/${String(installed.body['operation_id'])}`
  for (const { api } of [right, ahead]) {
    const done = await waitFor(
      async () => {
        const { body } = await api.get(path)
        return body['finished_at'] === null ? null : body
      },
      { what: 'the install to end' },
    )
    expect(done).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 0 }] })
    for (const field of ['created_at', 'finished_at'])
      expect(Math.abs(Date.parse(String(done[field])) - Date.now())).toBeLessThan(toleranceMs)
  }
  expect((await right.api.put('/api/models/talk', { name: 'talk', backend: 'scripted' })).status).toBe(201)
  for (const controller of [ahead, right]) {
    const answer = await ask(controller)
    expect(answer.status, await answer.text()).toBe(200)
    const { body } = await controller.api.get('/api/models/talk/replicas')
    expect(body['replicas']).toMatchObject([{ state: 'ready', reachable: true, unknown_since: null, out_of_rotation: null }])
  }
  const seen = watch.reads()
  await waitFor(() => watch.reads() > seen + 20, { what: 'more looks at the status' })
  expect(watch.wrong).toEqual([])
})

it('a worker that joined through the controller that is ahead joins again through the right one', async () => {
  ahead.process.kill('SIGKILL')
  worker.kill('SIGKILL')
  await Promise.all([ahead.process.exited, worker.exited])
  worker = await startWorker({ join: right.url })
  await worker.waitForOutput(/worker joined the cluster/, 20_000)
  await waitFor(async () => (await ask(right)).status === 200, { what: 'an answer', timeoutMs: 20_000 })
})
