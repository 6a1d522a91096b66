// Following against real controllers and workers: a node that is away, a controller that is killed in between.
import {
  adminKey,
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  type RunningController,
  startCluster,
  startNats,
  waitFor,
} from '@muster/testkit'
import { afterAll, expect, inject, it } from 'vitest'
import { runInProcess } from './run-in-process.ts'

const processes = createProcesses()
afterAll(() => processes.stopAll())

async function untilStatus({ api }: RunningController, name: string, status: string): Promise<void> {
  const isSo = async () => (await nodesOf(api).catch(() => [])).some((node) => node.name === name && node.status === status)
  await waitFor(isSo, { what: `${name} to be ${status}` })
}

it('an install ends with 3 while a node is absent; a later watch sees its end, although the controller was killed', async () => {
  await using nats = await startNats()
  await using database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  await using directory = await makeTempDir('cli')
  const options = { processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url, args: ['--auto-approve'] }
  const cluster = await startCluster({ ...options, controllers: 1 })
  const [controller] = cluster.controllers
  if (controller === undefined) throw new Error('one controller was started')
  const worker = (name: string) => cluster.startWorker({ name, join: controller.url, token: joinToken })
  const [, away] = await Promise.all(['here', 'away'].map(worker))
  await Promise.all(['here', 'away'].map((name) => untilStatus(controller, name, 'healthy')))
  await away?.stop()
  await untilStatus(controller, 'away', 'offline')

  const env = { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: adminKey }
  const { code, stdout, stderr } = await runInProcess(['backends', 'install', 'echo'], env)
  expect(stdout).toContain('install echo: here: success')
  expect(stdout).toContain('install echo: away: queued: node offline, will retry when healthy')
  expect(code).toBe(3)
  const id = /muster ops watch (op-\w+)/.exec(stderr)?.[1] ?? ''

  const watching = await processes.muster(['ops', 'watch', id], { env })
  await watching.waitForOutput(/away: queued/)
  controller.process.kill('SIGKILL')
  await watching.waitForOutput(/connection lost/)
  const port = new URL(controller.url).port
  controller.process = await processes.muster(
    ['controller', '--port', port, '--data-dir', controller.dataDir, '--nats-url', nats.url, '--auto-approve'],
    { env: { MUSTER_DATABASE_URL: database.url, MUSTER_ADMIN_KEY: adminKey, MUSTER_JOIN_TOKEN: joinToken } },
  )
  await worker('away')
  expect(await watching.exited, watching.output()).toEqual({ code: 0, signal: null })
  expect(watching.stdout()).toMatch(/install echo: away: success\n(.*\n)*install echo: succeeded: 2 of 2 nodes done\n$/)
  await processes.stopAll()
})
