// A worker that is killed and started again while a controller or the database does not answer: its processes run on, and
// controllers reach them at once. A worker that gets two signals leaves no process.
import { readdir, readFile } from 'node:fs/promises'
import {
  adminKey,
  boundMs,
  joinToken,
  nodesOf,
  scripted,
  startTestPostgres,
  waitFor,
  type StartedProcess,
  type TestPostgres,
} from '@muster/testkit'
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

const ask = ({ url }: { url: string }, content = 'hello'): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${adminKey}` },
    body: JSON.stringify({ model: 'talk', messages: [{ role: 'user', content }] }),
  })
/** The replica that answers, and its process; null: none answered. */
const replicaOf = async (controller: { url: string }): Promise<string | null> => {
  const answer = await ask(controller)
  const text = await answer.text()
  if (answer.status !== 200) return null
  const { scripted: by } = JSON.parse(text) as { scripted: { replica_id: string; pid: number } }
  return `${by.replica_id} ${by.pid}`
}

async function killAndRestart(): Promise<void> {
  worker.kill('SIGKILL')
  await worker.exited
  worker = await startWorker()
}

it('while PostgreSQL is down, a restarted worker serves with the processes it adopted', async () => {
  const before = await waitFor(() => replicaOf(cluster.second), { what: 'an answer' })
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
  const before = await waitFor(() => replicaOf(cluster.second), { what: 'an answer' })
  cluster.first.process.kill('SIGSTOP')
  const begun = performance.now()
  await killAndRestart()
  await worker.waitForOutput(/worker joined the cluster/)
  expect(performance.now() - begun).toBeLessThan(boundMs(7_000))
  await waitFor(async () => (await replicaOf(cluster.second)) === before, { what: 'the same replica to answer' })
  cluster.first.process.kill('SIGCONT')
})

const processesOf = async (replica: string): Promise<string[]> => {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const environments = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')))
  return pids.filter((_, at) => environments[at]?.includes(`=${replica}\0`) === true)
}

it('a second SIGINT ends a worker and its processes, also while they still answer', async () => {
  const [replica = ''] = (await waitFor(() => replicaOf(cluster.second), { what: 'an answer' })).split(' ')
  expect(await processesOf(replica)).not.toEqual([])
  const answer = ask(cluster.second, scripted({ answer_after_ms: 60_000 })).catch(() => null)
  const inFlight = async (): Promise<boolean> => /"in_flight":1/.test((await cluster.second.api.get('/api/nodes')).text)
  await waitFor(inFlight, { what: 'the request to be in flight' })
  worker.kill('SIGINT')
  // More than a second later: npm forwards a Ctrl-C once more.
  await waitFor(() => (worker.kill('SIGINT'), worker.hasExited()), { what: 'the worker to exit' })
  expect((await worker.exited).code).toBe(1)
  expect(worker.output()).toContain('second signal received; killing the processes of backends')
  expect(worker.output()).not.toContain('left running')
  expect(await processesOf(replica)).toEqual([])
  expect((await answer)?.status).not.toBe(200)
})
