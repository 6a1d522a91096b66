// Rollback to the previous version and forth again, from the local disk.
import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createProcesses } from '@muster/testkit'
import { afterAll, describe, expect, it } from 'vitest'
import { askState, type WorldOptions } from '../../test/replicas-world.ts'
import { startServingInstaller, type Build, type ServingInstaller } from '../../test/serving-installer.ts'
import { backendLayer, makeTestStore, never, recordOf, treeOf } from '../../test/test-store.ts'

const quick: WorldOptions = { pace: { graceMs: 500 } }
const processes = createProcesses()
afterAll(() => processes.stopAll())

async function startUpgraded(): Promise<{ tested: ServingInstaller; old: Build; fresh: Build }> {
  const tested = await startServingInstaller(quick)
  const old = await tested.publish('2.0.0')
  await tested.carryOut({ digest: old.index })
  const fresh = await tested.publish('3.0.0')
  await tested.carryOut({ digest: fresh.index })
  return { tested, old, fresh }
}
const blobsOf = ({ world }: ServingInstaller): string => join(world.root, 'backends/blobs/sha256')

describe('the previous version', () => {
  it.each(['upgrade', 'install'])(
    'is activated by an exact %s, and the newer one again, without a request to the registry',
    async (kind) => {
      const { tested, old, fresh } = await startUpgraded()
      await using _ = tested
      // Not even to check that it exists.
      await tested.registry.stop()
      for (const [at, build] of [old, fresh, old, fresh].entries()) {
        expect(await tested.carryOut({ kind, exact: true, digest: build.index })).toEqual({ digest: build.index, requests: 0 })
        expect(await tested.listed()).toMatchObject({ digest: build.index })
        await tested.world.serve(`r-${at}`, {}, { slot: at })
        expect(await askState(tested.world, `r-${at}`)).toMatchObject({ build: build === old ? '2.0.0' : '3.0.0' })
      }
    },
  )

  it('is found by either of its digests and listed under the requested one', async () => {
    const { tested, old, fresh } = await startUpgraded()
    await using _ = tested
    expect(await tested.carryOut({ digest: old.manifest })).toEqual({ digest: old.manifest, requests: 0 })
    expect(await tested.carryOut({ digest: fresh.manifest })).toEqual({ digest: fresh.manifest, requests: 0 })
    expect(await tested.carryOut({ digest: old.index })).toEqual({ digest: old.index, requests: 0 })
    expect(await tested.listed()).toMatchObject({ digest: old.index })
  })

  it.each(['upgrade', 'install'])('S3.16 that is damaged is rebuilt from stored blobs before an %s activates it', async (kind) => {
    const { tested, old } = await startUpgraded()
    await using _ = tested
    await writeFile(join(tested.world.store.treePath(old.manifest), 'server.mjs'), 'damaged')
    expect(await tested.carryOut({ kind, exact: true, digest: old.index })).toEqual({ digest: old.index, requests: 0 })
    expect(await tested.world.store.verify(old.manifest, { signal: never })).toBe('intact')
  })

  it.each(['upgrade', 'install'])('S3.16 that is damaged together with its blobs is fetched by an %s', async (kind) => {
    const { tested, old } = await startUpgraded()
    await using _ = tested
    await writeFile(join(tested.world.store.treePath(old.manifest), 'server.mjs'), 'damaged')
    for (const name of await readdir(blobsOf(tested))) await rm(join(blobsOf(tested), name))
    const { digest, requests } = await tested.carryOut({ kind, exact: true, digest: old.index })
    expect([digest, requests > 0]).toEqual([old.index, true])
    expect(await tested.world.store.verify(old.manifest, { signal: never })).toBe('intact')
  })

  it('E19 E20 stays, with its running processes, until another version is activated', async () => {
    const { tested, old, fresh } = await startUpgraded()
    await using _ = tested
    const { world, installer } = tested
    await world.serve('r-new', {}, { slot: 0 })
    await tested.carryOut({ digest: old.index })
    await installer.tidy(never)
    expect(await world.store.summary(fresh.manifest)).not.toBeNull()
    // Two more versions, so that the version of the process is neither active nor previous.
    for (const version of ['4.0.0', '5.0.0']) await tested.carryOut({ digest: (await tested.publish(version)).index })
    await installer.tidy(never)
    expect(await world.store.summary(fresh.manifest)).not.toBeNull()
    expect(await world.store.summary(old.manifest)).toBeNull()
    expect(await askState(world, 'r-new')).toMatchObject({ build: '3.0.0' })
  })
})

it.each([
  ['W.swap.before', '2'],
  ['W.swap.between', '2'],
  ['W.swap.after', '1'],
  ['W.gc.mid', '1'],
])(
  'E1 I7 a rollback killed at %s: version %s is active and intact, and the next try completes without a request',
  async (step, version) => {
    await using tested = await makeTestStore()
    const [one, two] = [[backendLayer('one')], [backendLayer('two')]]
    for (const layers of [one, two, [backendLayer('stray')]]) await tested.install(layers)
    await tested.store.activate(recordOf('llama', treeOf(one), '1'))
    await tested.store.activate(recordOf('llama', treeOf(two), '2'))
    const child = new URL('../../test/return-child.ts', import.meta.url).pathname
    const run = (killAt: string) => processes.start('node', { args: [child, tested.root, killAt, treeOf(one)] })
    const killed = await run(step)
    expect(await killed.exited, killed.output()).toMatchObject({ signal: 'SIGKILL' })
    const again = await tested.reopen()
    expect(await again.store.list()).toMatchObject([{ name: 'llama', version }])
    for (const tree of [treeOf(one), treeOf(two)]) expect(await again.store.verify(tree, { signal: never })).toBe('intact')
    const next = await run('none')
    expect(await next.exited, next.output()).toMatchObject({ code: 0 })
    const last = await tested.reopen()
    expect(await last.store.list()).toMatchObject([{ version: '1' }])
    expect((await last.store.get(recordOf('llama', treeOf(one)).name))?.previous).toMatchObject({ digest: treeOf(two) })
  },
)
