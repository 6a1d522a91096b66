import { backendList, Digest, type StoredFile } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import { soon, startOperations, to } from '../../test/operations-world.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { createScriptedInstaller } from '../../test/scripted-installer.ts'

const file = (hex: string): StoredFile => ({ digest: Digest.parse(`sha256:${hex.repeat(64)}`), size: 5 })

it('the content of model files is published with the inventory, and when it changes', async () => {
  let kept = [file('a')]
  await using node = await startOperations({ installer: createScriptedInstaller(), files: async () => kept })
  expect(await node.bus.request(backendList, to, {}, soon)).toMatchObject({ files: [file('a')] })
  kept = [file('a'), file('b')]
  node.operations.inventoryChanged()
  await waitFor(() => node.events.some((event) => event.type === 'inventory' && event.files?.length === 2), { what: 'the new list' })
})

it('a list that cannot be read is left out, never published as empty', async () => {
  const log = recordingLog()
  const files = async (): Promise<never> => Promise.reject(new Error('EIO'))
  await using node = await startOperations({ installer: createScriptedInstaller(), files, log })
  const list = await node.bus.request(backendList, to, {}, soon)
  expect(list).toMatchObject({ backends: [] })
  expect(list).not.toHaveProperty('files')
  expect(log.lines.map(({ message }) => message)).toContain('cannot list model files')
})
