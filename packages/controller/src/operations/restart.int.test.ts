// The progress that a controller has shown, after it was killed: another one starts from the database alone.
import { backendInstall, BackendName, opStatus, progress } from '@muster/protocol'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type IntentsWorld, startIntentsWorld, type TestIntents } from '../../test/intents-world.ts'
import { viewOperation } from './view.ts'

let world: IntentsWorld
let controller: TestIntents
beforeAll(async () => {
  world = await startIntentsWorld()
  controller = world.startController()
})
afterAll(() => world[Symbol.asyncDispose]())

it('D12 S2.33 a bar does not go back after a kill, whenever that happens', async () => {
  const { node, bus } = await world.addNode('worker')
  let epoch = 0
  bus.serve(backendInstall, { node }, (command) => {
    epoch = command.epoch ?? 0
    return { accepted: true as const }
  })
  bus.serve(opStatus, { node }, ({ op_id }) => ({ op_id, state: 'running' as const }))
  const id = await world.submit('backend.install', node)
  await world.until(id, controller, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
  const restarted = async () => {
    const found = await world.store.operations.find(id)
    return found === null ? null : viewOperation(found)
  }
  for (let seq = 1; seq <= 20; seq += 1) {
    const bytes = { current: seq * 10, total: 1_000, percentage: seq, file_name: 'layer', phase: 'downloading' as const }
    bus.publish(progress, { node, op: id }, { op_id: id, node_id: node, backend: BackendName.parse('llama'), ...bytes, seq, epoch })
    const shown = await world.until(id, controller, 'moving', ({ nodes }) => (nodes[0]?.current ?? 0) >= seq * 10)
    const after = await restarted()
    expect(after?.progress).toBeGreaterThanOrEqual(shown.progress)
    expect(after?.nodes[0]?.percentage).toBeGreaterThanOrEqual(shown.nodes[0]?.percentage ?? 0)
  }
  // The last report arrives in the bar, although nothing follows it.
  await world.until(id, controller, 'at 20 %', ({ progress: shown, nodes }) => shown === 20 && nodes[0]?.percentage === 20)
  expect((await restarted())?.progress).toBe(20)
})
