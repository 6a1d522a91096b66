import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeTempDir, type TempDir } from '@muster/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readSite, type SiteOptions } from './read-site.ts'

let dir: TempDir
beforeEach(async () => {
  dir = await makeTempDir('site')
  await mkdir(join(dir.path, 'models'))
  await writeFile(join(dir.path, 'models/a.yaml'), 'name: a\nbackend: b\n')
})
afterEach(() => dir[Symbol.asyncDispose]())

const read = (some: Partial<SiteOptions> = {}) =>
  readSite({
    source: dir.path,
    env: {},
    envFile: undefined,
    modelsDirectory: undefined,
    apiKeyFile: undefined,
    schedulingFile: undefined,
    only: null,
    ...some,
  })
async function file(name: string, text: string): Promise<string> {
  await writeFile(join(dir.path, name), text)
  return join(dir.path, name)
}

describe('the environment of LocalAI', () => {
  it('completes a site: keys, rules, defaults, galleries, backends and models that stay loaded', async () => {
    const env = {
      LOCALAI_API_KEY: 'one, two',
      LOCALAI_MODEL_SCHEDULING: '[{"model_name":"a","max_replicas":2}]',
      LOCALAI_LOAD_TO_MEMORY: 'a,b',
      LOCALAI_THREADS: '6',
      LOCALAI_CONTEXT_SIZE: '0',
      LOCALAI_F16: 'true',
      LOCALAI_GALLERIES: '[{"name":"own","url":"https://g"}]',
      LOCALAI_EXTERNAL_BACKENDS: 'whisper',
      LOCALAI_MODELS: 'phi-3',
    }
    const site = await read({ env })
    expect(site.keys.map((key) => key.reveal())).toEqual(['one', 'two'])
    expect(site.rules.map(({ from }) => from)).toEqual(['LOCALAI_LOAD_TO_MEMORY', 'LOCALAI_LOAD_TO_MEMORY', 'LOCALAI_MODEL_SCHEDULING'])
    expect(site.defaults).toEqual({ threads: 6, f16: true })
    expect(site.galleries.map(({ name, kind }) => `${kind} ${name}`)).toEqual(['backend localai-backends', 'model own'])
    expect(site.backends).toEqual(['whisper'])
    expect(site.losses).toMatchObject([{ about: 'LOCALAI_MODELS' }])
  })

  it('may be a file; variables of the command win', async () => {
    const envFile = await file('.env', '# LocalAI\nLOCALAI_THREADS=2\nLOCALAI_API_KEY="from-file"\n')
    const site = await read({ envFile, env: { LOCALAI_THREADS: '3' } })
    expect(site.defaults).toEqual({ threads: 3 })
    expect(site.keys.map((key) => key.reveal())).toEqual(['from-file'])
  })

  it('refuses rules that are no list, and files that are not there', async () => {
    await expect(read({ env: { LOCALAI_MODEL_SCHEDULING: '{}' } })).rejects.toThrow('LOCALAI_MODEL_SCHEDULING is not a list of rules')
    await expect(read({ envFile: join(dir.path, 'none') })).rejects.toThrow('--env-file: cannot read')
    await expect(read({ schedulingFile: join(dir.path, 'none') })).rejects.toThrow('--scheduling: cannot read')
  })
})

it('selected parts alone are imported', async () => {
  const site = await read({ only: ['keys', 'scheduling'], env: { LOCALAI_API_KEY: 'k', LOCALAI_LOAD_TO_MEMORY: 'a' } })
  expect(site).toMatchObject({ models: [], galleries: [], backends: [], nodes: [] })
  expect(site.keys).toHaveLength(1)
  expect(site.rules).toHaveLength(1)
})

it.each([
  ['http://user:secret@h:8080', 'must not hold a user name or password'],
  ['http://', 'is not a URL'],
])('the URL %s is refused', (source, message) => expect(read({ source })).rejects.toThrow(message))
