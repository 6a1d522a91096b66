// By which digest a worker says that a replica runs: the one under which that version is listed, so that controllers can
// compare what runs with what is installed.
import { join } from 'node:path'
import { createProcesses, makeTempDir } from '@muster/testkit'
import { afterAll, describe, expect, it } from 'vitest'
import { OperationId } from '@muster/protocol'
import { startServingInstaller } from '../../test/serving-installer.ts'
import { loadOf, markedPids, type WorldOptions } from '../../test/replicas-world.ts'

const quick: WorldOptions = { pace: { graceMs: 500 } }
const processes = createProcesses()
afterAll(() => processes.stopAll())

describe('the digest of a replica', () => {
  it('is that of the index where its backend is listed by it, in events and in op.status', async () => {
    await using tested = await startServingInstaller(quick)
    const { world } = tested
    const { index, manifest } = await tested.publish('2.0.0')
    await tested.carryOut({})
    expect(await tested.listed()).toMatchObject({ digest: index })
    await world.serve('r-1')
    expect(await world.ready('r-1')).toMatchObject({ backend_digest: index })
    expect(world.work.status(OperationId.parse('op-r-1'))).toMatchObject({ state: 'succeeded', digest: index })
    // A load of exactly this tree gets a replica of the same version.
    await world.serve('r-2', {}, { digest: manifest })
    expect(await world.ready('r-2')).toMatchObject({ backend_digest: index })
  })

  it('is that of the manifest where the load named it', async () => {
    await using tested = await startServingInstaller(quick)
    const { manifest } = await tested.publish('2.0.0')
    await tested.carryOut({ digest: manifest })
    await tested.world.serve('r-1')
    expect(await tested.world.ready('r-1')).toMatchObject({ backend_digest: manifest })
  })

  it('is the new one as soon as its version is listed by another of its digests, and before the inventory reports it', async () => {
    await using tested = await startServingInstaller(quick)
    const { world } = tested
    const { index, manifest } = await tested.publish('2.0.0')
    await tested.carryOut({})
    await world.serve('r-1')
    const pids = await world.pids('r-1')
    const said = () => world.events.flatMap((event) => (event.type === 'replica.ready' ? [event.backend_digest] : []))
    for (const digest of [manifest, index]) {
      await tested.carryOut({ digest })
      expect([await tested.listed(), said().at(-1)]).toMatchObject([{ digest }, digest])
      expect(world.work.status(OperationId.parse('op-r-1'))).toMatchObject({ digest })
    }
    await tested.carryOut({ digest: index })
    expect([said(), await world.pids('r-1')]).toEqual([[index, manifest, index], pids])
  })

  it('is the new one when its version comes back under another of its digests', async () => {
    await using tested = await startServingInstaller(quick)
    const { world } = tested
    const old = await tested.publish('2.0.0')
    await tested.carryOut({})
    await world.serve('r-1')
    const fresh = await tested.publish('3.0.0')
    await tested.carryOut({ digest: fresh.index })
    await tested.carryOut({ digest: old.manifest })
    expect(await tested.listed()).toMatchObject({ digest: old.manifest })
    expect(world.work.status(OperationId.parse('op-r-1'))).toMatchObject({ digest: old.manifest })
  })

  it('S1.7 stays the same when another version is installed; the next load runs and reports the new one', async () => {
    await using tested = await startServingInstaller(quick)
    const { world } = tested
    const old = await tested.publish('2.0.0')
    await tested.carryOut({})
    await world.serve('r-1', {}, { slot: 0 })
    const fresh = await tested.publish('3.0.0')
    await tested.carryOut({ digest: fresh.index })
    await world.serve('r-2', {}, { slot: 1 })
    expect(await world.ready('r-2')).toMatchObject({ backend_digest: fresh.index })
    await world.replicas.unload(loadOf('r-1').replica_id, { force: true })
    expect(await world.exited('r-1')).toMatchObject({ backend_digest: old.index })
  })

  it('F4 keeps its digest across kill -9 of the worker and an upgrade meanwhile', async () => {
    await using temp = await makeTempDir('killed')
    const root = join(temp.path, 'data')
    const child = new URL('../../test/replicas-child.ts', import.meta.url).pathname
    await using tested = await startServingInstaller({ ...quick, temp, root, isFresh: true })
    const old = await tested.publish('2.0.0')
    await tested.carryOut({})
    const id = `r-${process.pid}-said`
    const says = new RegExp(`"type":"replica.ready"[^\\n]*"replica_id":"${id}"[^\\n]*`)
    const first = await processes.start('node', { args: [child, root, '--load', JSON.stringify(loadOf(id))] })
    await first.waitForOutput(says)
    const serving = await markedPids(id)
    first.kill('SIGKILL')
    await first.exited
    const fresh = await tested.publish('3.0.0')
    await tested.carryOut({ digest: fresh.index })
    const next = await processes.start('node', { args: [child, root] })
    expect((await next.waitForOutput(says))[0]).toContain(`"backend_digest":"${old.index}"`)
    expect(await markedPids(id)).toEqual(serving)
    await next.stop()
  })
})
