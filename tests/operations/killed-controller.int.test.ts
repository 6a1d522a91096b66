// A controller that is killed right after its answer: real processes, real signals.
import { setTimeout as delay } from 'node:timers/promises'
import {
  createProcesses,
  createTestDatabase,
  isLongRun,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  waitFor,
} from '@muster/testkit'
import { afterAll, expect, inject, it } from 'vitest'

const processes = createProcesses()
afterAll(() => processes.stopAll())

/** Kills within 50 ms of the answer; 44 in a long run. */
const kills = isLongRun ? 44 : 2

it('A2 (3) an operation answered with 202 before the controller was killed is shown and finished by another controller', async () => {
  await using nats = await startNats()
  await using database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  await using directory = await makeTempDir('killed')
  const options = { processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url, args: ['--auto-approve'] }
  const { controllers, startWorker, restartController } = await startCluster({ ...options, controllers: 2 })
  const [a, b] = controllers
  if (a === undefined || b === undefined) throw new Error('two controllers were started')
  await startWorker({ name: 'one', join: b.url, token: joinToken })
  await waitFor(async () => (await nodesOf(b.api)).some(({ status }) => status === 'healthy'), {
    what: 'a healthy node',
  })
  for (let kill = 0; kill < kills; kill += 1) {
    if (kill > 0) await restartController(a)
    const isInstall = kill % 2 === 0
    const answer = isInstall ? await a.api.post('/api/backends/install', { backend: 'echo' }) : await a.api.delete('/api/backends/echo')
    await delay((50 * kill) / kills)
    a.process.kill('SIGKILL')
    await a.process.exited
    expect(answer.status, answer.text).toBe(202)
    const path = `/api/operations/${String(answer.body['operation_id'])}`
    expect((await b.api.get(path)).body).toMatchObject({
      ...{ kind: isInstall ? 'backend.install' : 'backend.delete', backend: 'echo', nodes: [{ node_name: 'one' }] },
    })
    const done = await waitFor(
      async () => {
        const { body } = await b.api.get(path)
        return body['state'] === 'succeeded' ? body : null
      },
      { what: 'its end on the other controller' },
    )
    expect(done).toMatchObject({ progress: 100, nodes: [{ node_name: 'one', status: 'success', attempts: 0 }] })
  }
  await processes.stopAll()
})
