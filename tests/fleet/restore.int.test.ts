// A cluster that was stopped and whose workers lost everything but their keys: what is to serve serves again, unasked.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createApiClient, adminKey, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startFleet, untilHealthy, type Fleet } from './fleet-world.ts'

const workers = ['one', 'two', 'three']
let world: Fleet
beforeAll(async () => {
  world = await startFleet({ postgresUrl: inject('postgresUrl'), controllers: 1, workers })
})
afterAll(() => world[Symbol.asyncDispose]())

async function stopEverything(): Promise<void> {
  await Promise.all([...world.workers.values()].map((worker) => worker.stop()))
  await Promise.all(world.controllers.map((controller) => controller.process.stop()))
  expect(await world.backendProcesses()).toEqual([])
}

/** Everything that a worker has, but who it is. */
async function wipeWorkers(): Promise<void> {
  for (const name of workers) {
    const directory = join(world.directory, `worker-${name}`)
    for (const entry of await readdir(directory)) if (!isIdentity(entry)) await rm(join(directory, entry), { recursive: true })
  }
}
const isIdentity = (entry: string): boolean => entry === 'node.key'

async function startEverything(): Promise<void> {
  for (const controller of world.controllers) await world.restartController(controller)
  await Promise.all(workers.map((name) => world.startWorker(name)))
  await untilHealthy(world, workers.length)
}

it('S4.9 S4.14 two replicas come back by themselves with the same options, and none of a deleted model', async () => {
  const options = { say: 'as before ' }
  await world.putModel('kept', options, { scheduling: { min_replicas: 2, max_replicas: 2 } })
  await world.until('kept', ({ replicas_ready: ready }) => ready === 2)
  const before = (await world.replicas('kept')).map(({ id }) => id)
  await stopEverything()
  await wipeWorkers()
  await startEverything()
  await world.until('kept', ({ replicas_ready: ready }) => ready === 2)
  // No replica that ended with its worker is shown as ready.
  const after = (await world.replicas('kept')).filter(({ state }) => state === 'ready')
  expect(after.filter(({ id }) => before.includes(id))).toEqual([])
  expect(await world.backendProcesses()).toHaveLength(2)
  const answer = await world.ask('kept')
  expect(answer.text).toContain('as before')

  const { status } = await world.api.delete('/api/models/kept')
  expect(status).toBe(202)
  await waitFor(async () => (await world.backendProcesses()).length === 0, { what: 'its processes to go' })
  await stopEverything()
  await startEverything()
  // Somebody else's model comes up meanwhile, so what was to come back would have.
  await world.putModel('other', {}, { scheduling: { min_replicas: 1 } })
  await world.until('other', ({ replicas_ready: ready }) => ready === 1)
  const probe = createApiClient(world.api.url, adminKey)
  expect((await probe.get('/api/models/kept')).status).toBe(404)
  expect(await world.backendProcesses()).toHaveLength(1)
})
