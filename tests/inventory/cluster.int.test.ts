// Two controllers, NATS and PostgreSQL, all processes of their own: what one knows of backends the other knows too.
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  startRegistry,
  waitFor,
  type ApiClient,
} from '@muster/testkit'
import { expect, inject, it } from 'vitest'

it('S0.21 S0.27 S3.17 every controller lists the same, also of a worker that was killed, and one at a time looks for newer builds', async () => {
  await using held = new AsyncDisposableStack()
  const directory = await makeTempDir('inventory-cluster')
  held.defer(() => directory.remove())
  const database = held.use(await createTestDatabase({ serverUrl: inject('postgresUrl') }))
  const nats = await startNats()
  held.defer(() => nats.stop())
  const registry = held.use(await startRegistry())
  const processes = createProcesses()
  held.defer(() => processes.stopAll())

  const from = join(directory.path, 'talk')
  await mkdir(from)
  const about = { name: 'talk', version: '1', driver: 'openai-http', command: ['./run.sh'], health_path: '/health', env: {} }
  await writeFile(join(from, 'backend.json'), JSON.stringify(about))
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\n')
  await chmod(join(from, 'run.sh'), 0o755)
  const uri = `${registry.host}/talk:1`
  const pack = await processes.muster(['pack', from, '-t', uri, '--push', '--allow-source', registry.host])
  expect(await pack.exited, pack.output()).toMatchObject({ code: 0 })

  const cluster = await startCluster({
    processes,
    directory: directory.path,
    databaseUrl: database.url,
    natsUrl: nats.url,
    controllers: 2,
    args: ['--auto-approve', '--allow-source', registry.host, '--node-timeout', '2s', '--heartbeat-interval', '500ms'],
  })
  const [one, two] = cluster.controllers.map(({ api }) => api)
  if (one === undefined || two === undefined) throw new Error('two controllers were asked for')
  const worker = await cluster.startWorker({ name: 'w', join: one.url, token: joinToken })
  await waitFor(async () => (await nodesOf(one)).some(({ status }) => status === 'healthy'), { what: 'a healthy node' })

  const installed = await one.post('/api/backends/install', { uri, name: 'talk' })
  expect(installed.status, installed.text).toBe(202)
  const listing = async (api: ApiClient): Promise<unknown> => (await api.get('/api/backends')).body['backends']
  const talkOn = (status: string): unknown => [
    { name: 'talk', metadata: { uri, version: '1' }, nodes: [{ node_name: 'w', node_status: status }], upgrade_available: false },
  ]
  const bothSay = (status: string): Promise<unknown> =>
    waitFor(
      async () => {
        for (const api of [one, two]) expect(await listing(api)).toMatchObject(talkOn(status) as object)
        return true
      },
      { what: `both to list it on a node that is ${status}` },
    )
  await bothSay('healthy')

  const checks = await Promise.all([one, two, one, two].map((api) => api.post('/api/backends/upgrades/check', {})))
  expect(checks.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(checks.map(({ body }) => body['upgrades'])).toEqual([{}, {}, {}, {}])

  worker.kill('SIGKILL')
  await bothSay('unhealthy')
})
