// A controller that dies by kill -9 at each named step between a request and its end: real processes, a real worker. What
// it answered is finished by another one, what it did not answer is there or not, and never twice.
import { join } from 'node:path'
import {
  administer,
  adminKey,
  createApiClient,
  createProcesses,
  createTestDatabase,
  freePort,
  joinToken,
  makeTempDir,
} from '@muster/testkit'
import { nodesOf, startNats, waitFor, type ApiClient, type NatsServer, type TempDir, type TestDatabase } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

const processes = createProcesses()
let nats: NatsServer
let directory: TempDir
let database: TestDatabase
let survivor: ApiClient
let started = 0

const program = new URL('../../packages/testkit/src/crashing-controller.ts', import.meta.url).pathname

async function startController(killAt = 'never'): Promise<{ api: ApiClient; hasExited: () => boolean }> {
  const port = await freePort()
  const data = join(directory.path, `controller-${(started += 1)}`)
  const args = [program, '--port', String(port), '--directory', data, '--nats', nats.url, '--kill-at', killAt]
  const env = { MUSTER_DATABASE_URL: database.url, MUSTER_ADMIN_KEY: adminKey, MUSTER_JOIN_TOKEN: joinToken }
  const process = await processes.start('node', { args, env })
  await process.waitForOutput(/ready/)
  return { api: createApiClient(`http://127.0.0.1:${port}`, adminKey), hasExited: process.hasExited }
}

beforeAll(async () => {
  nats = await startNats()
  directory = await makeTempDir('controller-crash')
  database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  survivor = (await startController()).api
  await processes.muster([
    'worker',
    '--join',
    survivor.url,
    '--name',
    'one',
    '--data-dir',
    join(directory.path, 'worker'),
    '--token',
    joinToken,
  ])
  const isHealthy = async (): Promise<boolean> => (await nodesOf(survivor)).some(({ status }) => status === 'healthy')
  await waitFor(isHealthy, { what: 'a healthy node' })
})
afterAll(async () => {
  await processes.stopAll()
  await database.drop()
  await nats.stop()
  await directory.remove()
})

const events = async (operation: string): Promise<string[]> =>
  (
    await administer(database.url, (client) =>
      client.query(
        'select e.type from intent_events e join operation_nodes n on n.generation = e.generation where n.operation_id = $1 order by e.id',
        [operation],
      ),
    )
  ).rows.map(({ type }: { type: string }) => type)

const install = (api: ApiClient, key: string) =>
  api.post('/api/backends/install', { backend: 'echo', digest: undefined }, { headers: { 'idempotency-key': key } }).catch(() => null)

async function ended(id: string): Promise<Record<string, unknown>> {
  return await waitFor(
    async () => {
      const { body } = await survivor.get(`/api/operations/${id}`)
      return body['finished_at'] === null ? null : body
    },
    { what: `operation ${id} to end` },
  )
}

describe('a controller that is killed', () => {
  it.each([
    ['A1', 'FE.intent.before_commit', 0],
    ['A2', 'FE.intent.after_commit', 1],
  ])('%s at %s has not answered; the same request again makes one operation', async (_, step, before) => {
    const crashing = await startController(step)
    const key = `key ${step}`.replace(' ', '-')
    expect(await install(crashing.api, key)).toBeNull()
    await waitFor(crashing.hasExited, { what: 'the controller to be dead' })
    const count = async (): Promise<number> =>
      ((await survivor.get('/api/operations?state=all')).body['operations'] as unknown as []).length
    const known = await count()
    const answer = await install(survivor, key)
    expect(answer?.status).toBe(202)
    expect((await count()) - known).toBe(1 - before)
    expect(await ended(String(answer?.body['operation_id']))).toMatchObject({
      state: 'succeeded',
      nodes: [{ status: 'success', attempts: 0 }],
    })
  })

  it.each([
    ['A3', 'RC.claim.after'],
    ['A3', 'RC.send.before'],
    ['A5', 'RC.reply.before_record'],
    ['A4', 'RC.reply.after_record'],
  ])('%s at %s is succeeded by another one: done once, and no attempt is counted', async (_, step) => {
    await survivor.delete('/api/backends/echo')
    // The first controller to wake claims the intent, so the one that will die is alone when the operation is submitted.
    const crashing = await startController(step)
    let id = ''
    for (let round = 0; !crashing.hasExited() && round < 20; round += 1) {
      const answer = await install(crashing.api, `${step}-${round}`)
      if (answer === null) break
      id = String(answer.body['operation_id'])
      await waitFor(async () => crashing.hasExited() || (await survivor.get(`/api/operations/${id}`)).body['finished_at'] !== null, {
        what: 'its end, or that of the controller',
      })
    }
    await waitFor(crashing.hasExited, { what: `the controller to reach ${step}` })
    expect(await ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 0 }] })
    expect((await events(id)).filter((type) => type === 'succeeded')).toHaveLength(1)
  })
})
