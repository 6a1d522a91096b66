import type { OperationView } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { backendName, createGate } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld } from './operations-world.ts'

let world: OperationsWorld
beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2 })
})
afterAll(() => world[Symbol.asyncDispose]())

it('S0.7 an operation succeeds, on every controller', async () => {
  const [one, two] = [await world.addWorker('one'), await world.addWorker('two')]
  const digest = world.publish('alpha', '1.0.0')
  const id = await world.install('alpha')
  const done = await world.ended(id, { index: 1 })
  expect(done).toMatchObject({ state: 'succeeded', message: '2 of 2 nodes done', nodes: [{ status: 'success' }, { status: 'success' }] })
  expect([one, two].map(({ installer }) => installer.installed.get(backendName('alpha'))?.digest)).toEqual([digest, digest])
  const gate = createGate()
  one.installer.script.set(backendName('beta'), gate.behaviour)
  world.publish('beta', '1.0.0')
  const second = await world.install('beta')
  await world.until(second, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
  gate.open()
  expect((await world.ended(second)).state).toBe('succeeded')
})

it('S0.27 S0.35 the later operation wins', async () => {
  world.publish('gamma', '1.0.0')
  const first = await world.install('gamma')
  const second = await world.remove('gamma')
  expect(await world.ended(second)).toMatchObject({ state: 'succeeded' })
  expect(['cancelled', 'succeeded']).toContain((await world.ended(first)).state)
})

it('a deletion is for every node that its query names, however it names them', async () => {
  const ids = [(await world.addWorker('three')).id, (await world.addWorker('four')).id]
  const named = async (query: string): Promise<string[]> => {
    const { status, body, text } = await world.api().delete(`/api/backends/delta?${query}&dry_run=true`)
    expect(status, text).toBe(200)
    return (body as unknown as OperationView).nodes.map((node) => node.node_id).toSorted()
  }
  expect(await named(ids.map((id) => `node=${id}`).join('&'))).toEqual(ids.toSorted())
  expect(await named(`node=${ids.join(',')}`)).toEqual(ids.toSorted())
})

it('I2 the list of a node during an operation does not complete it', async () => {
  const { id, installer } = await world.addWorker('five')
  const here = { nodes: [id] }
  const stubborn = Promise.withResolvers<void>()
  let isAtIt = false
  installer.script.set(backendName('epsilon'), async () => {
    isAtIt = true
    await stubborn.promise
  })
  for (const name of ['epsilon', 'zeta', 'eta']) world.publish(name, '1.0.0')
  await world.install('epsilon', here)
  await waitFor(() => isAtIt, { what: 'the install to be past being called off' })
  const deletion = await world.remove('epsilon', `?node=${id}`)
  await world.until(deletion, 'taken on', ({ nodes }) => nodes[0]?.status === 'downloading')
  // Each end is followed by a list, in which epsilon is not; the second is heard after the first.
  for (const name of ['zeta', 'eta']) {
    await world.ended(await world.install(name, here))
    await waitFor(async () => (await world.api().get(`/api/nodes/${id}/backends`)).text.includes(name), { what: `${name} to be listed` })
  }
  expect(await world.row(deletion, 'five')).toMatchObject({ status: 'downloading' })
  stubborn.resolve()
  expect(await world.ended(deletion)).toMatchObject({ state: 'succeeded' })
  expect(installer.installed.has(backendName('epsilon'))).toBe(false)
})
