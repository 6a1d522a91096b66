// Loads from a backend whose files were removed or changed on the disk.
import { appendFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import { loadOf, startReplicas } from '../../test/replicas-world.ts'

const damagedFailure = { code: 'integrity', retry: 'backoff', message: expect.stringMatching(/scripted is damaged on this node/) as string }

it('a load finds missing files before it starts a process, and reports the damage', async () => {
  let reports = 0
  await using world = await startReplicas({ onDamaged: () => (reports += 1) })
  await rm(join(world.store.treePath(world.digest), 'server.mjs'))
  expect(await world.replicas.load(loadOf('r-1'))).toEqual({ accepted: true })
  expect(await world.result('op-r-1')).toMatchObject({ state: 'failed', failure: damagedFailure })
  expect([reports, await world.store.condition(world.digest)]).toEqual([1, 'damaged'])
  // From here on the damage is known, and loads are refused.
  expect(await world.replicas.load(loadOf('r-2'))).toEqual({ accepted: false, failure: damagedFailure })
})

it('a process that does not start makes the worker read the files of its backend', async () => {
  let reports = 0
  await using world = await startReplicas({ onDamaged: () => (reports += 1) })
  await world.serve('r-1', {}, { slot: 0 })
  const server = join(world.store.treePath(world.digest), 'server.mjs')
  const { size } = await stat(server)
  await writeFile(server, ' '.repeat(size))
  await world.replicas.load(loadOf('r-2', {}, { slot: 1 }))
  expect(await world.result('op-r-2')).toMatchObject({ state: 'failed' })
  await waitFor(() => reports === 1, { what: 'the damage to be reported' })
  expect(await world.store.condition(world.digest)).toBe('damaged')
})

it('a model that fails for another reason leaves the backend intact', async () => {
  await using world = await startReplicas({ onDamaged: () => expect.unreachable() })
  await appendFile(join(world.store.treePath(world.digest), 'compiled'), 'files that a backend adds are no damage')
  await world.replicas.load(loadOf('r-1', { crash_at_start: 'no such tensor' }))
  expect(await world.result('op-r-1')).toMatchObject({ state: 'failed' })
  expect(await world.store.verify(world.digest, { signal: new AbortController().signal })).toBe('intact')
})
