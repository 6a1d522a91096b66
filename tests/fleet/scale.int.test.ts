// A model that is busy gets another replica, and loses it again, and nobody who asks notices more than that it is faster.
import { waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { scriptedOf, startFleet, type Fleet } from './fleet-world.ts'

let world: Fleet
beforeAll(async () => {
  world = await startFleet({
    ...{ postgresUrl: inject('postgresUrl'), controllers: 2, workers: ['one', 'two'] },
    args: ['--idle-scale-down', '4s'],
  })
})
afterAll(() => world[Symbol.asyncDispose]())

/** Asks over and over, some at once, on both controllers, until told to end; gives back which replicas answered. */
function keepAsking(model: string, atOnce: number) {
  let isOver = false
  const answered: string[] = []
  const failed: string[] = []
  const asking = Array.from({ length: atOnce }, async (_, index) => {
    const of = world.controllers[index % world.controllers.length]
    while (!isOver) {
      const answer = await world.ask(model, { answer_after_ms: 700 }, of === undefined ? {} : { of })
      if (answer.status === 200) answered.push(scriptedOf(answer).replica_id)
      else failed.push(`${answer.status} ${answer.text}`)
    }
  })
  return {
    answered,
    failed,
    async end(): Promise<void> {
      isOver = true
      await Promise.all(asking)
    },
  }
}

async function gauges(model: string): Promise<(number | null)[]> {
  const { text } = await world.api.get('/metrics')
  return ['wanted', 'ready'].map((which) => {
    const [, value] = new RegExp(`^muster_model_replicas_${which}\\{model="${model}"\\} (\\d+)$`, 'm').exec(text) ?? []
    return value === undefined ? null : Number(value)
  })
}

describe('a model that may have two replicas', () => {
  it('S4.9 G12 gets the second when the first is busy, loses it when idle, and no request fails', async () => {
    await world.putModel('busy', {}, { scheduling: { min_replicas: 1, max_replicas: 2, policy: 'least' } })
    await world.until('busy', ({ replicas_ready: ready }) => ready === 1)
    expect(await gauges('busy')).toEqual([1, 1])
    const load = keepAsking('busy', 4)
    try {
      await world.until('busy', ({ replicas_ready: ready }) => ready === 2)
      expect(await gauges('busy')).toEqual([2, 2])
      const replicas = await world.replicas('busy')
      expect(new Set(replicas.filter(({ state }) => state === 'ready').map(({ node_name: name }) => name))).toEqual(new Set(['one', 'two']))
      await waitFor(() => new Set(load.answered).size === 2, { what: 'both to answer' })
    } finally {
      await load.end()
    }

    // Quick ones go on meanwhile, so that the one that goes may just have been chosen for the next.
    const statuses: number[] = []
    let askedAt = -Infinity
    const isAlone = async (): Promise<boolean> => {
      if (performance.now() - askedAt < 300) return false
      askedAt = performance.now()
      statuses.push((await world.ask('busy')).status)
      return (await world.backendProcesses()).length === 1
    }
    await waitFor(isAlone, { what: 'one process' })
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect((await world.model('busy')).replicas_ready).toBe(1)
    expect(await gauges('busy')).toEqual([1, 1])
    scriptedOf(await world.ask('busy'))
    expect(load.failed).toEqual([])
  })
})
