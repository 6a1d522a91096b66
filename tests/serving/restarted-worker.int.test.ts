// A worker that is killed and started again while a controller or the database does not answer: its processes run on, and
// controllers reach them at once.
import { adminKey, boundMs, joinToken, nodesOf, startTestPostgres, waitFor, type StartedProcess, type TestPostgres } from '@muster/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startScriptedCluster, type ScriptedCluster } from './scripted-cluster.ts'

let postgres: TestPostgres
let cluster: ScriptedCluster
let worker: StartedProcess

beforeAll(async () => {
  postgres = await startTestPostgres()
  // A node timeout as long as in production: a worker that comes back late loses its replicas.
  cluster = await startScriptedCluster({ postgresUrl: postgres.url(), args: ['--node-timeout', '8s'] })
  worker = await startWorker(joinToken)
  const { api } = cluster.second
  await waitFor(async () => (await nodesOf(api)).some((node) => node.status === 'healthy'), { what: 'a worker' })
  const installed = await api.post('/api/backends/install', { uri: `file://${cluster.artifact}`, name: 'scripted' })
  expect(installed.status, installed.text).toBe(202)
  await waitFor(async () => /"scripted"/.test((await api.get('/api/backends')).text), { what: 'the backend' })
  const put = await api.put('/api/models/talk', { name: 'talk', backend: 'scripted' })
  expect(put.status, put.text).toBe(201)
  for (const controller of cluster.controllers) expect((await ask(controller)).status).toBe(200)
})
afterAll(async () => {
  cluster.first.process.kill('SIGCONT')
  await postgres.restart().catch(() => undefined)
  await cluster[Symbol.asyncDispose]()
  await postgres.stop()
})

const startWorker = (token?: string): Promise<StartedProcess> =>
  cluster.startWorker({ name: 'a', join: cluster.first.url, ...(token === undefined ? {} : { token }) })

const ask = ({ url }: { url: string }): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${adminKey}` },
    body: JSON.stringify({ model: 'talk', messages: [{ role: 'user', content: 'hello' }] }),
  })
const replicaOf = async (controller: { url: string }): Promise<string | null> => {
  const answer = await ask(controller)
  await answer.text()
  return answer.status === 200 ? answer.headers.get('x-muster-replica') : null
}

async function killAndRestart(): Promise<void> {
  worker.kill('SIGKILL')
  await worker.exited
  worker = await startWorker()
}

it('while PostgreSQL is down, a restarted worker serves with the processes it adopted', async () => {
  const before = await replicaOf(cluster.second)
  postgres.kill('SIGKILL')
  await waitFor(async () => (await cluster.second.api.get('/readyz')).status === 503, { what: 'the controllers to notice' })
  await killAndRestart()
  for (const controller of cluster.controllers) {
    await waitFor(async () => (await replicaOf(controller)) === before, { what: 'the same replica to answer' })
    for (let turn = 0; turn < 8; turn += 1) expect((await ask(controller)).status).toBe(200)
  }
  expect((await cluster.second.api.get('/readyz')).status).toBe(503)
  await postgres.restart()
  await waitFor(async () => (await cluster.second.api.get('/readyz')).status === 200, { what: 'the database to be back' })
  await waitFor(async () => (await nodesOf(cluster.second.api))[0]?.status === 'healthy', { what: 'the node to be healthy' })
  expect(await replicaOf(cluster.second)).toBe(before)
})

it('while the controller it joined through is frozen, a restarted worker is back through another one and keeps its replicas', async () => {
  const before = await replicaOf(cluster.second)
  cluster.first.process.kill('SIGSTOP')
  const begun = performance.now()
  await killAndRestart()
  await worker.waitForOutput(/worker joined the cluster/)
  expect(performance.now() - begun).toBeLessThan(boundMs(7_000))
  await waitFor(async () => (await replicaOf(cluster.second)) === before, { what: 'the same replica to answer' })
  const shown = await cluster.second.api.get('/api/models/talk')
  expect(shown.text).toContain(String(before))
  cluster.first.process.kill('SIGCONT')
})
