// Two replicas wanted on three nodes, under load, while one thing after the other is killed or cut off.
import { boundMs, canMakeNetworks, makeNetwork, nodesOf, waitFor, type Network } from '@muster/testkit'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startLoad, type Load } from './load.ts'
import { startFleet, untilHealthy, type Fleet } from './fleet-world.ts'
import { processesOf, watchProcesses, type ProcessWatch } from '../install/watch-processes.ts'

/** `MUSTER_PARTITION_SECONDS=60` makes it a minute; what happens at the node timeout (3 s here) has happened long before either way. */
const partitionMs = Number(process.env['MUSTER_PARTITION_SECONDS'] ?? 12) * 1_000
/** The node timeout, how often nodes are looked at, and a load; on a busy machine. */
const mostGapMs = 15_000

let network: Network
let world: Fleet
let watch: ProcessWatch
let load: Load

const ready = async () => (await world.replicas('wanted')).filter(({ state, reachable }) => state === 'ready' && reachable)
const processCount = async (): Promise<number> => (await processesOf(world)).length

/** As many processes as are wanted, each of them a ready replica: nothing is orphaned, nothing is too much. */
const untilCalm = (): Promise<unknown> =>
  waitFor(
    async () => {
      const ids = (await ready()).map(({ id }) => id).toSorted()
      const running = (await processesOf(world)).map(({ replicaId }) => replicaId).toSorted()
      return ids.length === 2 && JSON.stringify(ids) === JSON.stringify(running)
    },
    { what: 'two replicas, and their processes alone' },
  )
const workerOf = async (name: string) => (await processesOf(world)).filter(({ worker }) => worker === `worker-${name}`)

describe.skipIf(!canMakeNetworks())('two replicas wanted on three nodes, under load', () => {
  beforeAll(async () => {
    network = await makeNetwork()
    world = await startFleet({ postgresUrl: inject('postgresUrl'), controllers: 2, workers: [], host: network.hostAddress })
    await world.startWorker('far', ['--gateway-listen', `${network.address}:0`], network.namespace)
    await world.startWorker('one', ['--gateway-listen', `${network.hostAddress}:0`])
    await untilHealthy(world, 2)
    await world.putModel('wanted', {}, { scheduling: { min_replicas: 2, max_replicas: 2 } })
    await world.until('wanted', ({ replicas_ready }) => replicas_ready === 2)
    await world.startWorker('two', ['--gateway-listen', `${network.hostAddress}:0`])
    await untilHealthy(world, 3)
    watch = await watchProcesses(world)
  })
  afterAll(async () => {
    await watch?.stop()
    await world?.[Symbol.asyncDispose]()
    await network?.[Symbol.asyncDispose]()
  })

  const underLoad = async (fault: () => Promise<void>): Promise<void> => {
    load = startLoad(world.controllers, { model: 'wanted', perSecond: 20 })
    try {
      await waitFor(() => load.count() > 20, { what: 'load' })
      await fault()
      await untilCalm()
    } finally {
      await load.stop()
    }
    expect(watch.doubles()).toEqual([])
    expect(load.longestGapMs()).toBeLessThan(boundMs(mostGapMs))
  }

  it('I9 I11 C1 a disconnected node: its replica is replaced, and the surplus ends soon after its return', async () => {
    expect(await workerOf('far')).toHaveLength(1)
    await underLoad(async () => {
      await network.pull()
      await waitFor(async () => (await ready()).filter(({ node_name }) => node_name !== 'far').length === 2, {
        what: 'two replicas on the others',
      })
      await pause(partitionMs)
      // It knows nothing of that, and goes on.
      expect(await processCount()).toBe(3)
      await network.plug()
      await waitFor(async () => (await nodesOf(world.api)).every(({ status }) => status === 'healthy'), {
        what: 'all nodes healthy',
      })
    })
  })

  it('I9 I11 F4 a worker killed: it finds its processes again, or they end', async () => {
    await underLoad(async () => {
      const [{ node_name: name } = { node_name: '' }] = await ready()
      const worker = world.workers.get(name)
      worker?.kill('SIGKILL')
      await worker?.exited
      // Its load is moved meanwhile.
      await waitFor(async () => (await ready()).every(({ node_name }) => node_name !== name), {
        what: 'it to be missed',
      })
      const [address, within] = name === 'far' ? [network.address, network.namespace] : [network.hostAddress, undefined]
      await world.startWorker(name, ['--gateway-listen', `${address}:0`], within)
      await untilHealthy(world, 3)
    })
  })

  it('I9 C1 NATS killed and started again: nothing stops answering', async () => {
    await underLoad(async () => {
      await world.nats.kill('SIGKILL')
      await pause(5_000)
      await world.nats.restart()
      await untilHealthy(world, 3)
    })
  })

  it('I9 G2 a controller killed: the other one serves and decides, and it finds its way back', async () => {
    const [, second] = world.controllers
    if (second === undefined) throw new Error('there are two')
    second.process.kill('SIGKILL')
    await second.process.exited
    load = startLoad([world.controllers[0] ?? second], { model: 'wanted', perSecond: 20 })
    const [victim] = await processesOf(world)
    if (victim !== undefined) process.kill(victim.pid, 'SIGKILL')
    await untilCalm()
    await world.restartController(second)
    await untilCalm()
    await load.stop()
    expect(load.failures().length).toBeLessThanOrEqual(1)
    expect(watch.doubles()).toEqual([])
    expect(load.longestGapMs()).toBeLessThan(boundMs(mostGapMs))
  })
})
