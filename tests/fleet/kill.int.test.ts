// kill -9 of what serves, under load: backend, worker. What was lost is said, what can be moved is moved, nothing stays behind.
import { boundMs, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { scriptedOf, startFleet, untilHealthy, type Fleet } from './fleet-world.ts'

let world: Fleet
beforeAll(async () => {
  // A worker that was killed is there again before it is missed, also on a busy machine.
  world = await startFleet({ postgresUrl: inject('postgresUrl'), controllers: 2, workers: ['one', 'two'], args: ['--node-timeout', '20s'] })
})
afterAll(() => world[Symbol.asyncDispose]())

describe('kill -9', () => {
  it('F3 G6 G7 of a backend under load: detected and replaced, and its streams end with an error', async () => {
    await world.putModel('victim')
    const before = scriptedOf(await world.ask('victim'))
    const begun = new Set<number>()
    const streams = Array.from({ length: 5 }, (_, index) =>
      world.stream('victim', { tokens: 1_000, delay_ms: 20 }, { onText: (text) => text.includes('token-0') && begun.add(index) }),
    )
    // A stream without a token yet would be served by the next replica, which is right and proves something else.
    await waitFor(() => begun.size === 5, { what: 'five streams' })
    process.kill(before.pid, 'SIGKILL')
    const killedAt = performance.now()
    // Asked at once, before anybody can have noticed: it waits for the next replica.
    const next = scriptedOf(await world.ask('victim'))
    expect(performance.now() - killedAt).toBeLessThan(boundMs(15_000))
    expect(next.replica_id).not.toBe(before.replica_id)
    for (const { status, text } of await Promise.all(streams)) {
      expect(status).toBe(200)
      expect(text).toContain('token-0')
      expect(text).not.toContain('[DONE]')
      expect(text).toMatch(/\n\ndata: \{"error":\{.*\}\n\n$/)
    }
    const replicas = await world.replicas('victim')
    expect(replicas.find(({ id }) => id === before.replica_id)?.state ?? 'exited').toBe('exited')
  })

  it('F4 I11 of a worker: its backends serve again when it is back, and nothing is orphaned', async () => {
    await world.putModel('survivor')
    const before = scriptedOf(await world.ask('survivor'))
    const name = (await world.replicas('survivor')).find(({ state }) => state === 'ready')?.node_name ?? ''
    const processes = await world.backendProcesses()
    world.workers.get(name)?.kill('SIGKILL')
    await world.workers.get(name)?.exited
    expect(await world.backendProcesses()).toEqual(processes)
    await world.startWorker(name)
    await untilHealthy(world, 2)
    const after = await waitFor(
      async () => {
        const answer = await world.ask('survivor')
        return answer.status === 200 ? scriptedOf(answer) : null
      },
      { what: 'the model to serve again' },
    )
    expect(after).toMatchObject({ replica_id: before.replica_id, pid: before.pid })
    expect(await world.backendProcesses()).toEqual(processes)
    // An exit of a process that was found again is seen like any other.
    process.kill(after.pid, 'SIGKILL')
    const next = scriptedOf(await world.ask('survivor'))
    expect(next.pid).not.toBe(after.pid)
  })

  it('J13 a worker that is stopped ends its processes', async () => {
    await world.putModel('tidy')
    scriptedOf(await world.ask('tidy'))
    for (const worker of world.workers.values()) await worker.stop()
    expect(await world.backendProcesses()).toEqual([])
  })
})
