// The original's commands beside live processes: a controller that knows only the original, the real installer and real processes.
import { readFile } from 'node:fs/promises'
import type { Bus } from '@muster/bus'
import { backendInstall, BackendName, gatewayPaths, ReplicaId } from '@muster/protocol'
import { createLegacyController, waitFor, type LegacyController } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import { gatewayUrl, nodeId, soon, startOperations, to } from '../../test/operations-world.ts'
import { askState, replicaId, type WorldOptions } from '../../test/replicas-world.ts'
import { startServingInstaller, type ServingInstaller } from '../../test/serving-installer.ts'

const quick = { pace: { graceMs: 500, drainMs: 10_000 } } as const satisfies WorldOptions
type LegacyOptions = Readonly<{ pace?: NonNullable<WorldOptions['pace']>; isLegacyServed?: boolean }>

interface LegacyWorld extends AsyncDisposable, ServingInstaller {
  readonly bus: Bus
  readonly legacy: LegacyController
  /** The replica that the address names. */
  named(address: string | undefined): ReplicaId
  running(): string[]
  portOf(id: string): Promise<number>
}

async function startLegacyWorld({ pace = quick.pace, isLegacyServed = true }: LegacyOptions = {}): Promise<LegacyWorld> {
  const tested = await startServingInstaller({ pace })
  const { replicas } = tested.world
  const node = await startOperations({ installer: tested.installer, replicas, isLegacyServed, log: tested.world.log })
  const legacy = createLegacyController({ bus: node.bus, nodeId, timeoutMs: 30_000 })
  return {
    ...{ ...tested, bus: node.bus, legacy },
    named(address) {
      const id = ReplicaId.parse(address?.split('/').findLast((part) => part !== '') ?? '')
      expect(address).toBe(`${gatewayUrl}${gatewayPaths.replica(id)}`)
      return id
    },
    running: () => replicas.running().map(({ replicaId: id }) => id as string),
    async portOf(id) {
      const record = JSON.parse(await readFile(`${tested.world.root}/replicas/${id}.json`, 'utf8')) as {
        stage: { run: { address: { port: number } } }
      }
      return record.stage.run.address.port
    },
    async [Symbol.asyncDispose]() {
      await node[Symbol.asyncDispose]()
      await tested[Symbol.asyncDispose]()
    },
  }
}

/** Two processes of a model and one of another, of the first build; `uri` has a newer one. */
async function serveOldBuild(tested: LegacyWorld): Promise<{ uri: string; old: readonly string[] }> {
  await tested.carryOut({ digest: (await tested.publish('2.0.0')).index })
  await tested.world.serve('r-1', {}, { slot: 0 })
  await tested.world.serve('r-2', {}, { slot: 1 })
  await tested.world.serve('r-3', {}, { model: 'other' })
  await tested.publish('3.0.0')
  return { uri: `${tested.registry.host}/a/scripted:1`, old: ['r-1', 'r-2', 'r-3'] }
}

describe('an install that names a model', () => {
  it('S3.3 S3.5 with force replaces the backend, stops its live processes and answers the address of a new one', async () => {
    await using tested = await startLegacyWorld()
    const { world, legacy } = tested
    const { uri, old } = await serveOldBuild(tested)
    const before = await Promise.all(old.map(tested.portOf))
    const reply = await legacy.install({ backend: 'scripted', uri, force: true, model_id: 'm', replica_index: 0 })
    expect(reply).toMatchObject({ success: true })
    const id = tested.named(reply.address)
    expect(tested.running()).toEqual([id])
    for (const each of old) expect([await world.exited(each), await world.pids(each)]).toMatchObject([{ expected: true }, []])
    expect(await askState(world, id)).toMatchObject({ build: '3.0.0', model: 'm', replica_id: id })
    expect(before).not.toContain(await tested.portOf(id))
    expect(await tested.listed()).toMatchObject({ version: '3.0.0' })
  })

  it('S3.3 with force stops a process whose requests never end', async () => {
    await using tested = await startLegacyWorld({ pace: { graceMs: 500, drainMs: 600_000 } })
    const { uri } = await serveOldBuild(tested)
    const admission = tested.world.replicas.admit(replicaId('r-1'))
    if (typeof admission === 'string') throw new Error(admission)
    const reply = await tested.legacy.install({ backend: 'scripted', uri, force: true, model_id: 'm' })
    expect(tested.running()).toEqual([tested.named(reply.address)])
    admission[Symbol.dispose]()
  })

  it('S3.9 S3.12 without force finds the live process at once: nothing is fetched, stopped or started', async () => {
    await using tested = await startLegacyWorld()
    const { world, legacy, registry } = tested
    const { uri, old } = await serveOldBuild(tested)
    const before = [await Promise.all(old.map(world.pid)), registry.requests.length]
    for (const [index, id] of ['r-1', 'r-2'].entries()) {
      const reply = await legacy.install({ backend: 'scripted', uri, model_id: 'm', replica_index: index })
      expect([reply.success, tested.named(reply.address)]).toEqual([true, id])
    }
    expect(tested.named((await legacy.install({ backend: 'scripted', uri, model_id: 'm' })).address)).toBe('r-1')
    expect(tested.named((await legacy.install({ backend: 'scripted', uri, model_id: 'other' })).address)).toBe('r-3')
    expect([await Promise.all(old.map(world.pid)), registry.requests.length]).toEqual(before)
    expect(tested.running().toSorted()).toEqual(old)
  })

  it('S3.12 is answered at once for a live process, also while another version of the backend is being installed', async () => {
    await using tested = await startLegacyWorld()
    const { uri } = await serveOldBuild(tested)
    const next = await tested.publish('4.0.0')
    tested.registry.on(next.manifest, { do: 'hang' })
    const upgrade = { backend: BackendName.parse('scripted'), uri, digest: next.index, exact: true, async: true, op_id: 'op-1' }
    expect(await tested.bus.request(backendInstall, to, upgrade as never, soon)).toEqual({ accepted: true })
    await waitFor(() => tested.registry.requests.some(({ path }) => path.includes(next.manifest)), { what: 'the install to begin' })
    expect(tested.named((await tested.legacy.install({ backend: 'scripted', uri, model_id: 'm' })).address)).toBe('r-1')
  })

  it('S1.23 with the legacy protocol switched off is refused, also when its process is live', async () => {
    await using tested = await startLegacyWorld({ isLegacyServed: false })
    await tested.world.serve('r-1')
    for (const force of [false, true])
      expect(await tested.legacy.install({ backend: 'scripted', model_id: 'm', force })).toMatchObject({
        success: false,
        error: expect.stringMatching(/^incompatible/) as string,
      })
    expect(tested.running()).toEqual(['r-1'])
  })

  it('S3.5 without force starts a process for another index beside the live ones', async () => {
    await using tested = await startLegacyWorld()
    const { uri, old } = await serveOldBuild(tested)
    const reply = await tested.legacy.install({ backend: 'scripted', uri, model_id: 'm', replica_index: 2 })
    const id = tested.named(reply.address)
    expect(tested.running().toSorted()).toEqual([...old, id].toSorted())
    expect(new Set(await Promise.all([...old, id].map(tested.portOf))).size).toBe(4)
  })
})

describe('backend.stop', () => {
  it('S1.27 stops the processes of one backend, and without a name those of all', async () => {
    await using tested = await startLegacyWorld()
    const { world, legacy } = tested
    await tested.world.serve('r-1', {}, { slot: 0 })
    await tested.world.serve('r-2', {}, { model: 'other' })
    legacy.stopBackend('another')
    legacy.stopBackend('scripted')
    await waitFor(() => tested.running().length === 0, { what: 'the processes of the backend to stop', timeoutMs: 30_000 })
    for (const id of ['r-1', 'r-2']) expect([await world.exited(id), await world.pids(id)]).toMatchObject([{ expected: true }, []])
    await world.serve('r-3')
    legacy.stopBackend()
    await waitFor(() => tested.running().length === 0, { what: 'all processes to stop', timeoutMs: 30_000 })
    expect(await world.pids('r-3')).toEqual([])
  })

  it('S1.27 of another backend stops nothing', async () => {
    await using tested = await startLegacyWorld()
    await tested.world.serve('r-1')
    tested.legacy.stopBackend('another')
    await waitFor(() => tested.world.log.lines.some(({ message }) => message === 'backend.stop received'), { what: 'the command' })
    // The command above was first.
    await tested.world.replicas.stopBackend(tested.world.name('another'), { force: true })
    expect(tested.world.replicas.running()).toMatchObject([{ replicaId: 'r-1', state: 'ready' }])
  })
})
