import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BackendName, Digest } from '@muster/protocol'
import { createProcesses, sampleCases } from '@muster/testkit'
import { afterAll, describe, expect, it } from 'vitest'
import { backendLayer, layersOf, makeTestStore, never, recordOf, snapshot, streamOf, treeOf } from '../../test/test-store.ts'
import { upgradeLayers } from '../../test/upgrade-layers.ts'

const processes = createProcesses()
afterAll(() => processes.stopAll())

const child = fileURLToPath(new URL('../../test/store-child.ts', import.meta.url))
const name = BackendName.parse('llama')
const first = [backendLayer('one')]
const upgraded = treeOf(upgradeLayers)

/** Steps, and the active version when the process is killed there. */
const steps = [
  ['W.pull.mid_layer', '1'],
  ['W.pull.layer_verified', '1'],
  ['W.unpack.mid', '1'],
  ['W.unpack.done', '1'],
  ['W.swap.before', '1'],
  ['W.swap.between', '1'],
  ['W.swap.after', '2'],
  ['W.gc.mid', '2'],
] as const

describe('kill -9', () => {
  it.each(sampleCases(steps, 4))('E1 E2 I7 at %s: version %s is active and intact, and the upgrade resumes', async (step, version) => {
    await using tested = await makeTestStore()
    await tested.install(first)
    await tested.store.activate(recordOf('llama', treeOf(first), '1'))

    const killed = await processes.start('node', { args: [child, tested.root, step] })
    expect(await killed.exited, killed.output()).toMatchObject({ signal: 'SIGKILL' })

    const { store } = await tested.reopen()
    expect(await store.list()).toMatchObject([{ name: 'llama', version }])
    const { current } = (await store.get(name)) ?? {}
    expect(current && (await store.verify(current.digest, { signal: never }))).toBe('intact')
    expect(await readdir(join(tested.root, 'staging'))).toEqual([])
    for (const tree of await readdir(join(tested.root, 'trees/sha256')))
      expect(await store.verify(Digest.parse(`sha256:${tree}`), { signal: never })).toBe('intact')

    let sent = 0
    const before = await bytesThere(tested.root)
    for (const layer of upgradeLayers) {
      const open = async (offset: number): Promise<{ stream: ReturnType<typeof streamOf>; offset: number }> => {
        sent += layer.size - offset
        return { stream: streamOf(layer.bytes, offset), offset }
      }
      await store.fetchBlob({ digest: Digest.parse(layer.digest), size: layer.size, open }, { signal: never })
    }
    expect(before + sent).toBe(upgradeLayers.reduce((sum, { size }) => sum + size, 0))
    await store.unpack(upgraded, layersOf(upgradeLayers), { signal: never })
    await store.activate(recordOf('llama', upgraded, '2'))
    expect(await store.verify(upgraded, { signal: never })).toBe('intact')
    expect(Object.keys(await snapshot(store.treePath(upgraded)))).toEqual(['lib', 'lib/data', 'lib/link', 'run.sh', 'version'])
    await store.collect(never)
    expect((await readdir(join(tested.root, 'blobs/sha256'))).toSorted()).toEqual(
      [...first, ...upgradeLayers].map(({ digest }) => digest.slice(7)).toSorted(),
    )
  })
})

/** Stored bytes of the upgrade's layers, verified or not. */
async function bytesThere(root: string): Promise<number> {
  let bytes = 0
  for (const directory of ['incoming', 'blobs/sha256'])
    for (const { digest } of upgradeLayers) bytes += (await stat(join(root, directory, digest.slice(7))).catch(() => null))?.size ?? 0
  return bytes
}
