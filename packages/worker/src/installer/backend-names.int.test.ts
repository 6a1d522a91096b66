// Resolution of a name that several backends share: with commands on a bus, a journal, and backends on disk.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BackendName, backendDelete, backendInstall, opStatus } from '@muster/protocol'
import { makeImage, makeTempDir, tar, waitFor, type TempDir } from '@muster/testkit'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { opId, soon, startOperations, to, type OperationsWorld } from '../../test/operations-world.ts'
import { startRegistryInstaller, type RegistryInstaller } from '../../test/registry-installer.ts'
import { runSh } from '../../test/test-store.ts'

let world: RegistryInstaller
let journals: TempDir
let node: OperationsWorld

beforeEach(async () => {
  world = await startRegistryInstaller()
  world.registry.addImage('a/b', makeImage({ layers: [tar([runSh])] }), '1')
  journals = await makeTempDir('journals')
  await start()
})
afterEach(async () => {
  await node[Symbol.asyncDispose]()
  await journals.remove()
  await world[Symbol.asyncDispose]()
})

const journal = (): string => join(journals.path, 'operations', 'journal')
const start = async (): Promise<void> => void (node = await startOperations({ installer: world.installer, path: journal() }))
const install = (body: object) => node.bus.request(backendInstall, to, { uri: `${world.registry.host}/a/b:1`, ...body } as never, soon)
const remove = (body: object) => node.bus.request(backendDelete, to, body as never, soon)
const listed = async (): Promise<string[]> => (await world.installer.inventory()).map(({ name }) => name).toSorted()
const done = { success: true }

/** `cuda-llama` under its own name, and `llama`, a meta backend that resolves to it. */
async function installBoth(): Promise<void> {
  expect(await install({ backend: 'cuda-llama' })).toEqual(done)
  expect(await install({ backend: 'llama', name: 'cuda-llama' })).toEqual(done)
  expect(await listed()).toEqual(['cuda-llama', 'llama'])
}

it('W26 a delete removes the backend listed under the name, and a repeated one removes no other that shares the name', async () => {
  await installBoth()
  for (const fields of [{ generation: 1, epoch: 1 }, { generation: 1, epoch: 2 }, { generation: 2 }, {}]) {
    expect(await remove({ backend: 'cuda-llama', ...fields })).toEqual(done)
    expect(await listed()).toEqual(['llama'])
  }
})

it('W26 E1 a delete that was executed but not journaled removes no other backend after a restart', async () => {
  await installBoth()
  expect(await remove({ backend: 'cuda-llama', op_id: 'op-1' })).toEqual(done)
  await node[Symbol.asyncDispose]()
  const lines = (await readFile(journal(), 'utf8')).trimEnd().split('\n')
  expect(lines.at(-1)).toContain('"end"')
  await writeFile(journal(), `${lines.slice(0, -1).join('\n')}\n`)
  await start()
  const ended = async (): Promise<boolean> => (await node.bus.request(opStatus, to, { op_id: opId('op-1') }, soon)).state === 'succeeded'
  await waitFor(ended, { what: 'the delete to end' })
  expect(await listed()).toEqual(['llama'])
})

it('W26 an alias names the one backend that has it, and none when two have it', async () => {
  await install({ backend: 'cpu-llama', alias: 'llama' })
  expect(await world.installer.listedName(BackendName.parse('llama'))).toBe('cpu-llama')
  await install({ backend: 'cuda-llama', alias: 'llama' })
  expect(await remove({ backend: 'llama' })).toEqual(done)
  expect(await listed()).toEqual(['cpu-llama', 'cuda-llama'])
  await remove({ backend: 'cpu-llama' })
  await install({ backend: 'whisper', alias: 'gguf' })
  expect(await remove({ backend: 'gguf' })).toEqual(done)
  expect(await listed()).toEqual(['cuda-llama'])
})

it.each([
  ['the concrete name', { name: 'cuda-llama' }, 'cuda-llama'],
  ['the alias', { alias: 'gguf' }, 'gguf'],
])('W26 an install by %s of an installed backend names its version', async (_, other, name) => {
  await install({ backend: 'llama', ...other })
  const [there] = await world.installer.inventory()
  await install({ backend: name, op_id: 'op-2' })
  expect(await node.bus.request(opStatus, to, { op_id: opId('op-2') }, soon)).toMatchObject({
    state: 'succeeded',
    digest: there?.digest,
  })
  expect(await listed()).toEqual(['llama'])
})

it('a malformed record is replaced by the next install', async () => {
  await install({ backend: 'llama' })
  await writeFile(join(world.opened.root, 'backends', 'llama', 'current'), '{"format":1,"cur')
  expect(await install({ backend: 'llama' })).toEqual(done)
  expect(await listed()).toEqual(['llama'])
})
