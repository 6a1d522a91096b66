// A LocalAI data directory, also a hostile one: each wrong file is one loss, and the rest is read.
import { execFileSync } from 'node:child_process'
import { mkdir, symlink, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { makeTempDir, type TempDir } from '@muster/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { maxTextBytes } from './directory-files.ts'
import { parseRules, readDirectory } from './read-directory.ts'
import type { Site } from './site.ts'

let dir: TempDir
beforeEach(async () => void (dir = await makeTempDir('localai')))
afterEach(() => dir[Symbol.asyncDispose]())

async function write(path: string, content: string | object): Promise<void> {
  await mkdir(dirname(join(dir.path, path)), { recursive: true })
  await writeFile(join(dir.path, path), typeof content === 'string' ? content : JSON.stringify(content))
}
const names = ({ models }: Site): unknown[] => models.map(({ source }) => source['name'])
const lossOf = ({ losses }: Site, about: string): string =>
  losses
    .filter((loss) => loss.about === about)
    .map(({ message }) => message)
    .join('; ')

describe('a data directory', () => {
  it('has models, settings, backends and keys', async () => {
    await write('models/a.yaml', 'name: a\nbackend: llama-cpp\nparameters: {model: a.gguf}\n')
    await write('models/._gallery_a.yaml', 'name: a\nfiles: [{filename: a.gguf, uri: "huggingface://o/r/a.gguf", sha256: "ABC"}]\n')
    await write('models/list.yml', '- {name: b, backend: piper}\n- {name: c, backend: whisper}\n')
    await write('models/chatml.tmpl', '{{.Input}}')
    await write('models/sub/v.onnx', 'x')
    await write('configuration/runtime_settings.json', {
      threads: 8,
      context_size: 0,
      f16: true,
      api_keys: ['key-2', 'key-1'],
      galleries: [{ name: 'site', url: 'https://g/i.yaml' }],
    })
    await write('configuration/api_keys.json', ['key-1', 'bad key'])
    await write('configuration/external_backends.json', { mine: '127.0.0.1:9' })
    await write('backends/cpu-llama-cpp/run.sh', '')
    await write('backends/cpu-llama-cpp/metadata.json', { name: 'cpu-llama-cpp', alias: 'llama-cpp' })
    await write('backends/whisper/metadata.json', { meta_backend_for: 'cpu-whisper' })
    await write('backends/x.install-tmp/run.sh', '')
    const site = await readDirectory(dir.path)
    expect(names(site)).toEqual(['a', 'b', 'c'])
    expect(site.models[0]?.files).toEqual([{ filename: 'a.gguf', uri: 'huggingface://o/r/a.gguf', sha256: 'abc' }])
    expect([...site.local.templates]).toEqual([['chatml', '{{.Input}}']])
    expect(site.defaults).toEqual({ threads: 8, f16: true })
    expect(site.keys.map((key) => key.reveal())).toEqual(['key-1', 'key-2'])
    expect(site.backends).toEqual(['llama-cpp', 'whisper'])
    expect(site.galleries).toEqual([
      { name: 'site', url: 'https://g/i.yaml', kind: 'model' },
      { name: 'localai-backends', url: expect.stringContaining('github:'), kind: 'backend' },
    ])
    expect(lossOf(site, 'configuration/external_backends.json')).toContain('muster pack')
    expect(lossOf(site, 'models/sub/v.onnx')).toContain('no model names this file')
  })

  it('has the listings of the repositories that LocalAI fetched', async () => {
    const artifact = { source: { repo: 'o/r' }, resolved: { revision: 'a'.repeat(40) } }
    const files = [{ path: 'a', size: 3, sha256: 'b'.repeat(64) }, { path: 'b' }, { path: 7 }, 'x']
    await write('models/.artifacts/huggingface/key/manifest.json', { version: 1, artifact, files })
    await write('models/.artifacts/huggingface/other/manifest.json', { artifact: 7 })
    expect([...(await readDirectory(dir.path)).local.listings]).toEqual([
      [
        'o/r',
        {
          commit: 'a'.repeat(40),
          files: [
            { path: 'a', size: 3, sha256: 'b'.repeat(64) },
            { path: 'b', size: 0, sha256: null },
          ],
        },
      ],
    ])
  })

  it('may be the models directory alone', async () => {
    await write('a.yaml', 'name: a\nbackend: b\n')
    expect(names(await readDirectory(dir.path))).toEqual(['a'])
  })

  it('may have its models elsewhere; a link to them is named, and not followed', async () => {
    await using volume = await makeTempDir('volume')
    await writeFile(join(volume.path, 'a.yaml'), 'name: a\nbackend: b\n')
    await write('configuration/api_keys.json', ['k'])
    await symlink(volume.path, join(dir.path, 'models'))
    await expect(readDirectory(dir.path)).rejects.toThrow('models is a link')
    const site = await readDirectory(dir.path, volume.path)
    expect([names(site), site.keys.length]).toEqual([['a'], 1])
  })

  it('may have no models', async () => {
    await write('configuration/api_keys.json', ['k'])
    const site = await readDirectory(dir.path)
    expect([names(site), site.keys.length]).toEqual([[], 1])
  })

  it('has the last file of a name', async () => {
    await write('models/1.yaml', 'name: a\nbackend: one\n')
    await write('models/2.yaml', 'name: a\nbackend: two\n')
    const site = await readDirectory(dir.path)
    expect(site.models).toMatchObject([{ from: 'models/2.yaml' }])
    expect(lossOf(site, 'models/1.yaml')).toContain('models/2.yaml has the same name')
  })

  it('must exist', async () => {
    await expect(readDirectory(join(dir.path, 'none'))).rejects.toThrow('no such directory')
    await write('file', '')
    await expect(readDirectory(join(dir.path, 'file'))).rejects.toThrow('is not a directory')
  })
})

describe('a hostile directory', () => {
  beforeEach(() => write('models/good.yaml', 'name: good\nbackend: b\n'))

  it('leads to no file outside', async () => {
    await using outside = await makeTempDir('outside')
    await writeFile(join(outside.path, 'secret.yaml'), 'name: secret\nbackend: b\n')
    await symlink(join(outside.path, 'secret.yaml'), join(dir.path, 'models/link.yaml'))
    await symlink(outside.path, join(dir.path, 'models/folder'))
    await symlink('good.yaml', join(dir.path, 'models/inside.yaml'))
    await symlink('loop', join(dir.path, 'models/loop'))
    const site = await readDirectory(dir.path)
    expect(names(site)).toEqual(['good'])
    expect(lossOf(site, 'models/link.yaml')).toContain('out of the directory')
    expect(lossOf(site, 'models/folder')).toContain('not followed')
    expect([...site.local.sizes.keys()]).toEqual(['good.yaml', 'inside.yaml'])
    await expect(site.local.locate('../../etc/passwd')).rejects.toThrow()
    await expect(site.local.locate('folder/secret.yaml')).rejects.toThrow('out of the directory')
  })

  it.each<[string, string | object, RegExp]>([
    ['aliases that expand to billions of values', bomb(), /cannot be read/],
    ['deep nesting', `a: ${'['.repeat(20_000)}`, /cannot be read/],
    ['no UTF-8', '\u0000\u0001', /cannot be read|not a model/],
    ['a word', 'hello', /not a model/],
    ['a list of words', '[a, b]', /not a model/],
    ['no name', 'backend: b', /no name/],
    ['a name of the wrong type', 'name: [a]\nbackend: b', /no name/],
    ['duplicate keys', 'name: a\nname: b\n', /cannot be read/],
  ])('loses a file with %s', async (_, content, message) => {
    await write('models/bad.yaml', content)
    const site = await readDirectory(dir.path)
    expect(names(site)).toEqual(['good'])
    expect(lossOf(site, 'models/bad.yaml')).toMatch(message)
  })

  it('reads no huge file, no pipe and no folder', async () => {
    await write('models/huge.yaml', '')
    await truncate(join(dir.path, 'models/huge.yaml'), maxTextBytes + 1)
    execFileSync('mkfifo', [join(dir.path, 'models/pipe.yaml')])
    await mkdir(join(dir.path, 'models/folder.yaml'))
    const site = await readDirectory(dir.path)
    expect(names(site)).toEqual(['good'])
    expect(lossOf(site, 'models/huge.yaml')).toContain('at most')
    expect(lossOf(site, 'models/pipe.yaml')).toContain('not a file')
    expect(lossOf(site, 'models/folder.yaml')).toContain('not a file')
  })

  it('has settings of wrong types', async () => {
    await write('configuration/runtime_settings.json', { api_keys: 7, galleries: { a: 1 }, threads: 'many' })
    await write('configuration/api_keys.json', { a: 1 })
    await write('configuration/external_backends.json', '[]')
    await write('backends/file', 'x')
    const site = await readDirectory(dir.path)
    expect(site).toMatchObject({ keys: [], defaults: {}, backends: [] })
    expect(site.galleries.map(({ kind }) => kind)).toEqual(['backend'])
    expect(lossOf(site, 'runtime settings')).toContain('not a JSON list')
  })
})

it('rules of scheduling are a list in YAML or JSON', () => {
  expect(parseRules('- {model_name: a, min_replicas: 1}', 'f')).toEqual([{ from: 'f', rule: { model_name: 'a', min_replicas: 1 } }])
  expect(() => parseRules('{"a": 1}', 'f')).toThrow('f is not a list of rules')
})

function bomb(): string {
  const levels = Array.from({ length: 12 }, (_, at) => `a${at + 1}: &a${at + 1} [${Array(10).fill(`*a${at}`).join(',')}]`)
  return ['a0: &a0 x', ...levels].join('\n')
}
