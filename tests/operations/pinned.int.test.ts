// An operation about a path on the nodes (`file:`): the first node that installs it decides on the content for all others.
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { OperationNode } from '@muster/protocol'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startOperationsWorld, type OperationsWorld } from './operations-world.ts'

let world: OperationsWorld
beforeAll(async () => (world = await startOperationsWorld({ postgresUrl: inject('postgresUrl') })))
afterAll(() => world[Symbol.asyncDispose]())

async function makeBackend(name: string): Promise<string> {
  const path = join(world.directory, 'sources', name)
  await mkdir(path, { recursive: true })
  await writeFile(join(path, 'run.sh'), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
  return path
}

async function digestsOf(backend: string): Promise<Record<string, string>> {
  const { body } = await world.api().get('/api/backends')
  const found = (body['backends'] as unknown as { name: string; nodes: { node_name: string; digest: string }[] }[]).find(
    ({ name }) => name === backend,
  )
  return Object.fromEntries((found?.nodes ?? []).map(({ node_name: name, digest }) => [name, digest]))
}

const finalOf = ({ status, error_code: code, attempts }: OperationNode) => ({ status, code, attempts })

it('a late node gets the content that an early one got; a changed path is integrity, a removed one not_found, and neither is tried again', async () => {
  const [early, late] = [await world.addInstallingWorker('early'), await world.addInstallingWorker('late')]
  await late.stop()
  const paths = { same: await makeBackend('same'), changed: await makeBackend('changed'), removed: await makeBackend('removed') }
  const nodes = [early.id, late.id]
  const submit = (name: keyof typeof paths): Promise<string> =>
    world.install(name, { backend: undefined, uri: `file://${paths[name]}`, name, nodes })
  const ids = { same: await submit('same'), changed: await submit('changed'), removed: await submit('removed') }
  for (const id of Object.values(ids))
    await world.until(id, 'installed early', ({ nodes: rows }) =>
      rows.some(({ node_name: name, status }) => name === 'early' && status === 'success'),
    )
  await writeFile(join(paths.changed, 'more'), 'changed since')
  await rm(paths.removed, { recursive: true })
  await late.start()
  for (const id of Object.values(ids)) await world.ended(id)

  expect(finalOf(await world.row(ids.same, 'late'))).toMatchObject({ status: 'success' })
  expect(await digestsOf('same')).toEqual({ early: expect.stringMatching(/^sha256:/) as string, late: (await digestsOf('same'))['early'] })
  expect(finalOf(await world.row(ids.changed, 'late'))).toEqual({ status: 'error', code: 'integrity', attempts: 1 })
  expect(finalOf(await world.row(ids.removed, 'late'))).toEqual({ status: 'error', code: 'not_found', attempts: 1 })
  expect(Object.keys(await digestsOf('changed'))).toEqual(['early'])

  // A retry is the same operation; a new one takes what the path has now.
  expect((await world.api().post(`/api/operations/${ids.changed}/retry`, {})).status).toBe(202)
  expect(finalOf((await world.ended(ids.changed)).nodes.find(({ node_name: name }) => name === 'late') ?? expect.fail())).toMatchObject({
    code: 'integrity',
  })
  const again = await world.install('changed', { backend: undefined, uri: `file://${paths.changed}`, name: 'changed', nodes: [late.id] })
  expect((await world.ended(again)).state).toBe('succeeded')
  const installed = await digestsOf('changed')
  expect(installed['late']).not.toBe(installed['early'])
})
