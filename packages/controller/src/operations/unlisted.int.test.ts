// A backend that is installed and not listed yet is told from one that was never there, in whatever order reports are stored.
import { BackendName, NodeId } from '@muster/protocol'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startRolloutWorld, type RolloutWorld } from '../../test/rollout-world.ts'

let world: RolloutWorld
beforeAll(async () => void (world = await startRolloutWorld()))
afterAll(() => world[Symbol.asyncDispose]())

it('S0.19 a list that is older than the install and is written after it does not count as one without it', async () => {
  const id = NodeId.parse('a')
  const llama = BackendName.parse('llama')
  const unlisted = async (): Promise<string[]> => [...(await world.store.intents.installedUnlisted(llama))]
  await world.addNode('a', { replicas: 0 })
  await world.upgrade(['a'])
  await world.send()
  const requestedAt = await world.store.inventory.now()
  await world.step('a', { type: 'succeeded', note: '' })
  const { generation } = (await world.intentOf('a')).record.intent

  expect(await world.store.inventory.recordAnswer({ id, incarnation: 'i', requestedAt }, { backends: [] })).toBe(true)
  expect(await unlisted()).toEqual(['a'])
  const say = (seq: number, of: number) =>
    world.store.inventory.record(id, { backends: [], generations: { [llama]: of }, incarnation: 'i', seq })
  expect(await say(1, generation - 1)).toBe(true)
  expect(await unlisted()).toEqual(['a'])
  expect(await say(2, generation)).toBe(true)
  expect(await unlisted()).toEqual([])
})
