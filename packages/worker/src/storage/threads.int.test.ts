import { readdir, readFile } from 'node:fs/promises'
import { layerOf, tar } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import { backendLayer, layersOf, makeTestStore, never, runSh, treeOf } from '../../test/test-store.ts'
import { createThreads } from './threads.ts'

const mb = 1024 ** 2

describe('the main thread', () => {
  // Measured by processor time per turn of the event loop: wall-clock time would also measure other load on the machine.
  // (bench/ measures wall-clock time.)
  it('is never busy for 50 ms at a stretch, nor for a third of the work, while a large layer is hashed and unpacked', async () => {
    await using tested = await makeTestStore()
    const large = layerOf(tar([runSh, { path: 'large', data: Buffer.alloc(60 * mb, 'some text that is repeated') }]), 'none')
    await tested.put(backendLayer('warm'))
    const busyMs = (): number => {
      const { user, system } = process.threadCpuUsage()
      return (user + system) / 1000
    }
    const startMs = busyMs()
    const start = process.cpuUsage()
    let last = startMs
    let longest = 0
    let turns = 0
    const timer = setInterval(() => {
      const now = busyMs()
      longest = Math.max(longest, now - last)
      last = now
      turns++
    }, 1)
    await tested.put(large)
    await tested.store.unpack(treeOf([large]), layersOf([large]), { signal: never })
    clearInterval(timer)
    const { user, system } = process.cpuUsage(start)
    expect(turns).toBeGreaterThan(20)
    expect(longest).toBeLessThan(50)
    expect((busyMs() - startMs) / ((user + system) / 1000)).toBeLessThan(1 / 3)
  })
})

describe('a thread', () => {
  /** The threads of this process as the kernel lists them; it cuts names to 15 characters. */
  const threads = async (): Promise<number> => {
    const names = (await readdir('/proc/self/task')).map((task) => readFile(`/proc/self/task/${task}/comm`, 'utf8').catch(() => ''))
    return (await Promise.all(names)).filter((name) => 'muster-storage'.startsWith(name.trim()) && name.trim() !== '').length
  }

  it('that hashed downloads is reused to unpack them, and vice versa', async () => {
    const own = createThreads()
    await using _ = { [Symbol.asyncDispose]: () => own.close() }
    await using tested = await makeTestStore({ threads: own })
    const before = await threads()
    await Promise.all(['one', 'two', 'three'].map((name) => tested.put(backendLayer(name))))
    await tested.install([backendLayer('one')])
    await tested.install([backendLayer('four')])
    expect((await threads()) - before).toBe(1)
  })
})
