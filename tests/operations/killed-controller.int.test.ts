// A controller that is killed right after its answer: real processes, real signals.
import { createProcesses, createTestDatabase, joinToken, makeTempDir, nodesOf, startCluster, startNats, waitFor } from '@muster/testkit'
import { afterAll, expect, inject, it } from 'vitest'

const processes = createProcesses()
afterAll(() => processes.stopAll())

it('A2 (3) an operation answered with 202 before the controller was killed is shown and finished by another controller', async () => {
  await using nats = await startNats()
  await using database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  await using directory = await makeTempDir('killed')
  const options = { processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url, args: ['--auto-approve'] }
  const { controllers, startWorker } = await startCluster({ ...options, controllers: 2 })
  const [a, b] = controllers
  if (a === undefined || b === undefined) throw new Error('two controllers were started')
  await startWorker({ name: 'one', join: a.url, token: joinToken })
  await waitFor(async () => (await nodesOf(b.api)).some(({ status }) => status === 'healthy'), {
    what: 'a healthy node',
  })
  const answer = await a.api.post('/api/backends/install', { backend: 'echo' })
  a.process.kill('SIGKILL')
  expect(answer.status, answer.text).toBe(202)
  const path = `/api/operations/${String(answer.body['operation_id'])}`
  expect((await b.api.get(path)).body).toMatchObject({ kind: 'backend.install', backend: 'echo', nodes: [{ node_name: 'one' }] })
  const done = await waitFor(
    async () => {
      const { body } = await b.api.get(path)
      return body['state'] === 'succeeded' ? body : null
    },
    { what: 'its end on the other controller' },
  )
  expect(done).toMatchObject({ progress: 100, nodes: [{ node_name: 'one', status: 'success', attempts: 0 }] })
  await processes.stopAll()
})
