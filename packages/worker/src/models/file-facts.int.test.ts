// The facts that a worker reports about its model files.
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Digest, type ModelFile } from '@muster/protocol'
import { startFileServer, waitFor, type FileServer } from '@muster/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { contentOf, makeTestModelFiles, type TestModelFiles } from '../../test/test-model-files.ts'

let server: FileServer
let tiny: Buffer
let digest: Digest
beforeAll(async () => {
  server = await startFileServer()
  tiny = await readFile(join(import.meta.dirname, '../../../../models/tiny/tiny.gguf'))
  digest = Digest.parse(`sha256:${createHash('sha256').update(tiny).digest('hex')}`)
  server.put('/tiny.gguf', { bytes: tiny })
})
afterAll(() => server.stop())

const file = (): ModelFile => ({ uri: `${server.url}/tiny.gguf`, filename: 'weights/tiny.gguf' })
const report = async ({ files }: TestModelFiles) => await files.facts(await files.contents())
const withFacts = (tested: TestModelFiles, count: number) =>
  waitFor(async () => ((await report(tested)).file_facts?.length === count ? await report(tested) : null), { what: 'the headers' })

it('headers of GGUF files are reported, also of a file without a hash, and its content under its name', async () => {
  await using tested = await makeTestModelFiles()
  const other = contentOf(5_000)
  server.put('/other', other)
  using staged = await tested.stage('org/tiny', [file(), { uri: `${server.url}/other`, filename: 'other.bin' }])
  expect(staged.directory).not.toBe('')
  const { file_facts: facts, named_files: named } = await withFacts(tested, 1)
  expect(facts).toMatchObject([{ digest, facts: { architecture: 'llama', layers: 4, tensors: { count: 38 } } }])
  expect(named?.toSorted((a, b) => a.size - b.size)).toEqual([
    { model: 'org/tiny', filename: 'other.bin', digest: other.digest, size: 5_000 },
    { model: 'org/tiny', filename: 'weights/tiny.gguf', digest, size: tiny.length },
  ])
})

it('a restart reports what was read before without reading the file again, and forgets what is gone', async () => {
  await using tested = await makeTestModelFiles()
  using staged = await tested.stage('tiny', [file()])
  await withFacts(tested, 1)
  const [name] = await tested.names('facts')
  const record = JSON.parse(await readFile(join(tested.root, 'facts', name ?? ''), 'utf8')) as { facts: { layers: number } }
  await writeFile(join(tested.root, 'facts', name ?? ''), JSON.stringify({ ...record, facts: { ...record.facts, layers: 77 } }))
  await writeFile(join(tested.root, 'facts', 'f'.repeat(64)), '{}')
  staged[Symbol.dispose]()
  await using again = await tested.reopen()
  expect((await withFacts(again, 1)).file_facts).toMatchObject([{ facts: { layers: 77 } }])
  await waitFor(async () => (await again.names('facts')).length === 1, { what: 'the removal of the stale record' })
})
