import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { silentLog, systemClock } from '@muster/host'
import { ModelConfig, ModelName } from '@muster/protocol'
import { createOutbound } from '@muster/source'
import { startFileServer, type FileServer } from '@muster/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { RemoteFile } from '../store/file-contents.ts'
import { createSourceHeaders } from './source-headers.ts'

const tiny = readFileSync(join(import.meta.dirname, '../../../../models/tiny/tiny.gguf'))
const name = ModelName.parse('tiny')
let server: FileServer
beforeAll(async () => {
  server = await startFileServer()
  server.put('/tiny.gguf', { bytes: tiny })
  server.put('/big.gguf', { bytes: Buffer.concat([tiny, Buffer.alloc(20_000_000)]) })
  server.put('/text.gguf', { bytes: Buffer.from('no model') })
})
afterAll(() => server.stop())

function world({ allow = ['127.0.0.1'] }: { allow?: string[] } = {}) {
  const stored: RemoteFile[] = []
  const read = createSourceHeaders({
    outbound: createOutbound({ allow, clock: systemClock, log: silentLog }),
    builtin: Promise.resolve({ size: async () => tiny.length, open: () => Readable.from([tiny]) }),
    contents: { recordRemote: async (file) => void stored.push(file) },
    ...{ clock: systemClock, log: silentLog },
  })
  const readFile = (uri: string, filename = 'tiny.gguf') =>
    read(name, ModelConfig.parse({ name, backend: 'llama', files: [{ uri, filename }] }).files)
  return { stored, readFile }
}

it('the header and the size of a file are read from its source, and stored', async () => {
  const { stored, readFile } = world()
  const found = await readFile(`${server.url}/tiny.gguf`)
  expect(found).toMatchObject([{ model: 'tiny', filename: 'tiny.gguf', digest: null, size: tiny.length, facts: { layers: 4 } }])
  expect(stored).toEqual(found)
})

it('of a large file only the beginning is read', async () => {
  const { readFile } = world()
  expect(await readFile(`${server.url}/big.gguf`)).toMatchObject([{ size: tiny.length + 20_000_000, facts: { layers: 4 } }])
})

it('a built-in file is read without a request', async () => {
  const { readFile } = world()
  expect(await readFile(`builtin://tiny@sha256:${'a'.repeat(64)}`)).toMatchObject([{ size: tiny.length, facts: { layers: 4 } }])
})

it('a file that is not GGUF has a size and no header; a file of another name is not read', async () => {
  const { readFile } = world()
  expect(await readFile(`${server.url}/text.gguf`)).toMatchObject([{ size: 8, facts: null }])
  expect(await readFile(`${server.url}/tiny.gguf`, 'tiny.bin')).toEqual([])
})

it('a source that fails, or that is forbidden, is left alone for a while', async () => {
  const { stored, readFile } = world()
  expect(await readFile(`${server.url}/missing.gguf`)).toEqual([])
  server.put('/missing.gguf', { bytes: tiny })
  expect(await readFile(`${server.url}/missing.gguf`)).toEqual([])
  expect(await world({ allow: [] }).readFile(`${server.url}/tiny.gguf`)).toEqual([])
  expect(stored).toEqual([])
})
