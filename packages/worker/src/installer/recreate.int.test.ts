// Upgrades that stop all processes first (`recreate`), also on a disk without room for two versions.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { makeTempDir, waitFor, type TempDir } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { failureOf, ReplicaId, type Failure } from '@muster/protocol'
import { askState, loadOf, replicaId, type WorldOptions } from '../../test/replicas-world.ts'
import { startServingInstaller, type ServingInstaller } from '../../test/serving-installer.ts'
import { never } from '../../test/test-store.ts'
import { unmount } from '../../test/unmount.ts'

const quick: WorldOptions = { pace: { graceMs: 500, drainMs: 10_000 } }

describe('recreate', () => {
  it('S1.6 S3.3 lets requests finish, stops every process of the backend, replaces it, and starts none', async () => {
    await using tested = await startServingInstaller(quick)
    const { world } = tested
    const old = await tested.publish('2.0.0')
    await tested.carryOut({ digest: old.index })
    await world.serve('r-1', {}, { slot: 0 })
    await world.serve('r-2', { ignore_sigterm: true }, { slot: 1 })
    await world.serve('r-3', {}, { model: 'other' })
    const fresh = await tested.publish('3.0.0')
    const admission = world.replicas.admit(replicaId('r-1'))
    if (typeof admission === 'string') throw new Error(admission)
    const upgrading = tested.carryOut({ digest: fresh.index, strategy: 'recreate' })
    await waitFor(() => world.replicas.admit(ReplicaId.parse('r-1')) === 'draining', { what: 'the old one to be drained' })
    expect(await tested.listed()).toMatchObject({ digest: old.index })
    admission[Symbol.dispose]()
    expect(await upgrading).toMatchObject({ digest: fresh.index })
    for (const id of ['r-1', 'r-2', 'r-3']) {
      expect(await world.exited(id)).toMatchObject({ expected: true })
      expect(await world.pids(id)).toEqual([])
    }
    expect(world.replicas.running()).toEqual([])
    expect(await tested.listed()).toMatchObject({ digest: fresh.index })
    // S1.7, and back again.
    await world.serve('r-4', {}, { slot: 0 })
    expect(await askState(world, 'r-4')).toMatchObject({ build: '3.0.0' })
    expect(await tested.carryOut({ digest: old.index, strategy: 'recreate' })).toEqual({ digest: old.index, requests: 0 })
    expect(world.replicas.running()).toEqual([])
  })

  it('S1.6 of the active version stops only processes of other versions', async () => {
    await using tested = await startServingInstaller(quick)
    const { world } = tested
    await tested.carryOut({ digest: (await tested.publish('2.0.0')).index })
    await world.serve('r-old', {}, { slot: 0 })
    const { index } = await tested.publish('3.0.0')
    await tested.carryOut({ digest: index })
    await world.serve('r-new', {}, { slot: 1 })
    expect(await tested.carryOut({ digest: index, strategy: 'recreate' })).toEqual({ digest: index, requests: 0 })
    expect(world.replicas.running()).toMatchObject([{ replicaId: 'r-new', state: 'ready' }])
  })
})

describe('on a small disk', () => {
  const mb = 1024 ** 2
  const run = (program: string, ...args: string[]): Buffer => execFileSync(program, args, { stdio: 'pipe' })
  const isRoot = process.getuid?.() === 0
  let temp: TempDir
  let count = 0
  beforeAll(async () => {
    temp = await makeTempDir('room')
  })
  afterAll(() => temp.remove())

  /** Each version takes 20 MB as a layer, and again unpacked. */
  async function withDisk(sizeMb: number, work: (tested: ServingInstaller) => Promise<void>): Promise<void> {
    const own = await makeTempDir(`room-${(count += 1)}`)
    run('mount', '-t', 'tmpfs', '-o', `size=${sizeMb}m`, 'tmpfs', own.path)
    try {
      await using tested = await startServingInstaller({
        ...quick,
        root: join(own.path, 'data'),
        temp: { ...temp, remove: async () => undefined },
        isFresh: true,
      })
      await work(tested)
    } finally {
      await unmount(own.path)
      await own.remove()
    }
  }
  const publish = (tested: ServingInstaller, version: string) => tested.publish(version, Buffer.alloc(10 * mb, version))
  const failureIn = async (work: Promise<unknown>): Promise<Failure> => failureOf(await work.catch((error: unknown) => error))

  it.skipIf(!isRoot)('E4 a third version replaces the previous one, without disturbing the version in use', async () => {
    await withDisk(50, async (tested) => {
      const first = await publish(tested, '2.0.0')
      await tested.carryOut({ digest: first.index })
      const second = await publish(tested, '3.0.0')
      await tested.carryOut({ digest: second.index })
      const third = await publish(tested, '4.0.0')
      expect(await tested.carryOut({ digest: third.index })).toMatchObject({ digest: third.index })
      expect(await tested.carryOut({ digest: second.index })).toEqual({ digest: second.index, requests: 0 })
    })
  })

  it.skipIf(!isRoot)('E4 S1.6 rolling: disk_full, and the old one serves on; recreate: the old one goes first', async () => {
    await withDisk(34, async (tested) => {
      const { world } = tested
      const old = await publish(tested, '2.0.0')
      await tested.carryOut({ digest: old.index })
      await world.serve('r-1', {}, { slot: 0 })
      const fresh = await publish(tested, '3.0.0')
      expect(await failureIn(tested.carryOut({ digest: fresh.index }))).toMatchObject({ code: 'disk_full', retry: 'backoff' })
      expect(await tested.listed()).toMatchObject({ digest: old.index })
      expect(await askState(world, 'r-1')).toMatchObject({ build: '2.0.0' })
      expect(await tested.carryOut({ digest: fresh.index, strategy: 'recreate' })).toMatchObject({ digest: fresh.index })
      expect(world.replicas.running()).toEqual([])
      expect(await tested.listed()).toMatchObject({ digest: fresh.index })
      await world.serve('r-2', {}, { slot: 0 })
      expect(await askState(world, 'r-2')).toMatchObject({ build: '3.0.0' })
    })
  })

  it.skipIf(!isRoot)(
    'E4 S1.6 a recreate that fails after the old version is removed is reported, and the next attempt continues from there',
    async () => {
      await withDisk(34, async (tested) => {
        const { world } = tested
        const old = await publish(tested, '2.0.0')
        await tested.carryOut({ digest: old.index })
        await world.serve('r-1', {}, { slot: 0 })
        const huge = await tested.publish('3.0.0', Buffer.alloc(20 * mb, 1))
        const failure = await failureIn(tested.carryOut({ digest: huge.index, strategy: 'recreate' }))
        expect(failure).toMatchObject({ code: 'disk_full', retry: 'backoff' })
        expect(failure.message).toContain('the old version was removed to make room, so scripted is not installed on this node now')
        expect(await tested.listed()).toBeUndefined()
        expect(existsSync(world.store.treePath(old.manifest))).toBe(false)
        expect(await world.replicas.load(loadOf('r-2'))).toMatchObject({ accepted: false, failure: { code: 'not_found' } })
        const small = await publish(tested, '4.0.0')
        expect(await tested.carryOut({ digest: small.index, strategy: 'recreate' })).toMatchObject({ digest: small.index })
        expect(await world.store.verify(small.manifest, { signal: never })).toBe('intact')
      })
    },
  )
})
