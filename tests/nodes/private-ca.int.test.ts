// A cluster whose NATS has a certificate that no system trusts: workers learn it from the controller.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  createProcesses,
  createTestDatabase,
  joinToken,
  makeCertificate,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  waitFor,
} from '@muster/testkit'
import { afterAll, expect, inject, it } from 'vitest'

const processes = createProcesses()
const endings: (() => Promise<unknown>)[] = [() => processes.stopAll()]
afterAll(async () => {
  for (const end of endings) await end()
})

it('a worker joins over TLS without a setting of its own', async () => {
  const directory = await makeTempDir()
  const { key, cert } = makeCertificate('127.0.0.1')
  const [ca, keyPath] = [join(directory.path, 'ca.pem'), join(directory.path, 'key.pem')]
  await writeFile(ca, cert)
  await writeFile(keyPath, key, { mode: 0o600 })
  const nats = await startNats({ args: ['--tls', '--tlscert', ca, '--tlskey', keyPath] })
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  endings.push(
    () => nats.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
  const cluster = await startCluster({
    ...{ processes, directory: directory.path, databaseUrl: database.url, controllers: 1 },
    natsUrl: `tls://127.0.0.1:${nats.port}`,
    args: ['--nats-ca', ca],
  })
  const [controller = expect.unreachable()] = cluster.controllers
  // A setting that changes at run time takes effect for the next node that joins.
  expect((await controller.api.patch('/api/settings', { 'auto-approve': true })).status).toBe(200)
  await cluster.startWorker({ name: 'alpha', join: controller.url, token: joinToken })
  await waitFor(async () => (await nodesOf(controller.api)).some(({ name, status }) => name === 'alpha' && status === 'healthy'), {
    what: 'the worker to be healthy',
  })
})
