// Workers that reply only at the end: a reply counts however late it arrives, and an upgrade is not begun twice.
import type { OperationId } from '@muster/protocol'
import { startLegacyWorker, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type IntentsWorld, startIntentsWorld, type TestIntents } from '../../test/intents-world.ts'

const timeoutMs = 200

let world: IntentsWorld
let controller: TestIntents
beforeAll(async () => {
  world = await startIntentsWorld()
  controller = world.startController({ backendInstallTimeout: timeoutMs, backendUpgradeTimeout: timeoutMs, opMaxAttempts: 2 })
})
afterAll(() => world[Symbol.asyncDispose]())

async function addLegacy(name: string, hasUpgrade = false) {
  const { node, bus } = await world.addNode(name, [])
  const begun: PromiseWithResolvers<void>[] = []
  const work = (): Promise<void> => {
    const one = Promise.withResolvers<void>()
    begun.push(one)
    return one.promise
  }
  return { node, begun, ...startLegacyWorker({ bus, nodeId: node, hasUpgrade, work }) }
}
const busy = (id: OperationId) => world.until(id, controller, 'busy', ({ nodes }) => nodes[0]?.status === 'running_on_worker')
const ended = (id: OperationId) => world.until(id, controller, 'ended', ({ finished_at: at }) => at !== null)

it('the failure that an old worker replies after its timeout counts, also when the install was sent again', async () => {
  const old = await addLegacy('fails-late')
  const id = await world.submit('backend.install', old.node)
  await busy(id)
  await waitFor(() => old.begun.length === 2, { what: 'the install to be sent again' })
  old.begun[0]?.reject(new Error('no space'))
  const seen = await world.until(id, controller, 'failed once', ({ nodes }) => nodes[0]?.attempts === 1)
  expect(seen.nodes[0]).toMatchObject({ attempts: 1, dead: false })
  await waitFor(() => old.begun.length >= 3, { what: 'the next attempt' })
  for (const one of old.begun) one.reject(new Error('still no space'))
  expect(await ended(id)).toMatchObject({
    state: 'failed',
    nodes: [{ status: 'error', dead: true, attempts: 2, error: 'install failed: still no space' }],
  })
})

it('the success that an old worker replies after its timeout counts', async () => {
  const old = await addLegacy('late')
  const id = await world.submit('backend.install', old.node)
  await busy(id)
  old.begun[0]?.resolve()
  expect(await ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 0 }] })
})

it.each([
  ['by a forced install', false],
  ['by its own command', true],
])('an upgrade on an old worker that lists no digests, %s, is sent once however long it takes', async (how, hasUpgrade) => {
  const old = await addLegacy(`upgraded-${how.replaceAll(' ', '-')}`, hasUpgrade)
  old.backends.set('llama', 1)
  const id = await world.submit('backend.upgrade', old.node)
  await busy(id)
  // Beside it an install is sent again several times, so often the upgrade could have been.
  const beside = await addLegacy(`beside-${how.replaceAll(' ', '-')}`)
  const other = await world.submit('backend.install', beside.node)
  await waitFor(() => beside.begun.length >= 3, { what: 'the install beside it to be sent again' })
  expect(old.begun).toHaveLength(1)
  old.begun[0]?.resolve()
  expect(await ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
  for (const one of beside.begun) one.resolve()
  await ended(other)
})

it('an overdue upgrade on an old worker can be cancelled', async () => {
  const old = await addLegacy('cancelled', true)
  old.backends.set('llama', 1)
  const id = await world.submit('backend.upgrade', old.node)
  await busy(id)
  expect(await world.store.reopen.cancel(id, null)).toBe('done')
  controller.operations.wake()
  expect(await ended(id)).toMatchObject({ state: 'cancelled' })
})
