import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Digest, ModelConfig } from '@muster/protocol'
import { parseBuiltinUri } from '@muster/source'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readBuiltinModels } from './builtin-models.ts'

const own = join(import.meta.dirname, '../../../../models')

describe('the built-in models', () => {
  it('have files that match their entries, and valid configurations', async () => {
    const { entries, pathOf } = await readBuiltinModels(own)
    expect(entries.map(({ name }) => name)).toContain('tiny')
    for (const { name, files, config } of entries) {
      expect(ModelConfig.parse({ ...config, name, files }).files).toHaveLength(files.length)
      for (const { uri, sha256 } of files) {
        const digest = parseBuiltinUri(uri)?.digest
        expect(digest).toBe(`sha256:${sha256}`)
        const bytes = await readFile(pathOf(Digest.parse(digest)) ?? '')
        expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256)
      }
    }
  })
})

describe('a directory of models', () => {
  const sha256 = 'a'.repeat(64)
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'muster-models-'))
    await mkdir(join(directory, 'small'))
  })
  afterEach(() => rm(directory, { recursive: true, force: true }))
  const describeModel = (text: string) => writeFile(join(directory, 'small', 'model.yaml'), text)
  const small = `name: small\nfiles: [{ filename: a.gguf, sha256: ${sha256} }]\nconfig: { backend: llama }\n`

  it('offers those with a model.yaml, and no others', async () => {
    await describeModel(small)
    await writeFile(join(directory, 'small', 'a.gguf'), '')
    await mkdir(join(directory, 'half'))
    await writeFile(join(directory, 'README.md'), '')
    const { entries, pathOf } = await readBuiltinModels(directory)
    expect(entries).toEqual([
      expect.objectContaining({ name: 'small', files: [{ uri: `builtin://small@sha256:${sha256}`, filename: 'a.gguf', sha256 }] }),
    ])
    expect(pathOf(Digest.parse(`sha256:${'b'.repeat(64)}`))).toBeNull()
  })

  it.each([
    ['a file that is not there', small, /ENOENT/],
    ['a file without a hash', 'name: small\nfiles: [{ filename: a.gguf }]\n', /sha256/],
    ['a file that is elsewhere', small.replace('a.gguf', '../a.gguf'), /filename/],
  ])('is refused with %s', async (_, text, reason) => {
    await describeModel(text)
    await expect(readBuiltinModels(directory)).rejects.toThrow(reason)
  })

  it('may be missing', async () => {
    expect((await readBuiltinModels(join(directory, 'none'))).entries).toEqual([])
  })
})
