// Galleries as LocalAI sites have them: a small corpus of this repository, and the real one where MUSTER_LOCALAI_CORPUS names it.
import { readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { silentLog, systemClock } from '@muster/host'
import type { ModelGalleryEntry } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { reportedCapabilities, resolveMeta } from '../gallery/choose.ts'
import { isMeta } from '../gallery/entry.ts'
import { parseGallery, parseModelGallery } from '../gallery/parse-gallery.ts'
import { createOutbound } from '../outbound/create-outbound.ts'
import { createBaseFiles } from './base-file.ts'
import { checkModels } from './check-models.ts'
import { mergeEntry, noChanges, planModel } from './plan-model.pure.ts'

const signal = AbortSignal.timeout(60_000)
const own = fileURLToPath(new URL('./test-corpus', import.meta.url))
// Nothing may be fetched: every base file is beside its index.
const bases = createBaseFiles({
  outbound: createOutbound({ allow: [], clock: systemClock, log: silentLog, lookup: async () => [] }),
  clock: systemClock,
})

function readCorpus(directory: string) {
  const index = join(directory, 'model-index.yaml')
  return {
    models: parseModelGallery(readFileSync(index, 'utf8')),
    backends: parseGallery(readFileSync(join(directory, 'backend-index.yaml'), 'utf8')),
    galleryUrl: pathToFileURL(index).href,
  }
}

describe('the corpus of this repository', () => {
  const { models, backends, galleryUrl } = readCorpus(own)
  const planOf = async (name: string) => {
    const entry = models.entries.find((each) => each.name === name)
    if (entry === undefined) throw new Error(`there is no entry ${name}`)
    const url = entry.localai?.base ?? null
    const base = url === null ? { config: {}, files: [] } : await bases.read({ url, galleryUrl }, signal)
    return mergeEntry(entry, { base, changes: noChanges })
  }

  it('is read but for the entries that are wrong', () => {
    expect(models.entries).toHaveLength(17)
    expect(models.leftOut.map(({ name, message }) => [name, message])).toEqual([
      ['own', expect.stringContaining('same name')],
      ['twice', expect.stringContaining('duplicate key "overrides"')],
      ['escape', expect.stringContaining('files.0.filename')],
      ['', expect.stringContaining('name')],
    ])
  })

  it.each<[string, object]>([
    [
      'tower-8b',
      {
        config: { name: 'tower-8b', backend: 'llama-cpp', context_size: 4096, parameters: { model: 'llama-cpp/models/tower-8b-Q4.gguf' } },
      },
    ],
    ['tower-8b', { config: { function: { replace_function_results: [{ key: "'", value: "'" }] } } }],
    ['glass-4.7-flash', { config: { name: 'GLASS-4.7-Flash-GGUF' } }],
    ['paint-1.5', { config: { options: ['sampler:euler'], cfg_scale: 0, step: 25 } }],
    ['open-r1', { config: { context_size: 8192, parameters: { model: 'open-r1.gguf' } } }],
    [
      'gem-e2b-it:sglang-mtp',
      { config: { backend: 'sglang', parameters: { model: 'example/gem-E2B-it' } }, artifacts: [{ folder: 'example/gem-E2B-it' }] },
    ],
    ['tower-8b-vllm', { artifacts: [{ repository: 'example/tower-8b', revision: '890bdef7a42feba6d83b6e17a03315c694112f2a' }] }],
    ['film-avatar', { artifacts: [{ role: 'model' }, { role: 'companion', folder: 'base_model', allow: ['vae/**'] }] }],
    ['asr-whole', { artifacts: [{ repository: 'example/asr-1.7b', revision: 'main' }] }],
    ['vad-bundled', { artifacts: [], files: [] }],
    [
      'voice-tugao-medium',
      { files: [{ filename: 'voice-pt_PT-tugão-medium.tar.gz', unpack: true }, { uri: 'hf://example/voices/tug%C3%A3o.json' }] },
    ],
    ['faces-buffalo', { files: [{ unpack: true }] }],
    ['speech-sherpa', { files: [{ unpack: true }] }],
    ['small-ollama', { files: [{ uri: 'oci://registry.ollama.ai/library/small:1b' }] }],
    ['own', { format: 'muster', config: { backend: 'llama' } }],
  ])('%s is merged as LocalAI merges it: %j', async (name, merged) => {
    expect(await planOf(name)).toMatchObject(merged)
  })

  it('gives every entry a valid configuration, or a reason', async () => {
    const { valid, refused } = await checkModels(models.entries, { bases, galleryUrl, signal })
    expect(valid + refused.length).toBe(models.entries.length)
    for (const { message } of refused) expect(message.length).toBeGreaterThan(10)
    expect(valid).toBeGreaterThanOrEqual(15)
  })

  it('has meta backends that resolve as in LocalAI', () => {
    expect(backends.leftOut).toMatchObject([{ name: 'metal-llama-cpp', message: expect.stringContaining('same name') as string }])
    const builds = Object.fromEntries(backends.entries.filter(isMeta).map((entry) => [entry.name, resolveMeta(entry)]))
    expect(builds['llama-cpp']).toMatchObject({
      'nvidia-cuda-12': 'cuda12-llama-cpp',
      'nvidia-cuda-13': 'cpu-llama-cpp',
      'nvidia-l4t-cuda-12': 'nvidia-l4t-arm64-llama-cpp',
      'nvidia-l4t-cuda-13': 'cpu-llama-cpp',
      amd: 'cpu-llama-cpp',
    })
    expect(builds['rerankers']).toMatchObject({ 'nvidia-cuda-13': 'cuda12-rerankers', 'nvidia-l4t-cuda-13': null, default: null })
  })
})

const real = process.env['MUSTER_LOCALAI_CORPUS'] ?? ''

describe.skipIf(real === '')('the galleries of LocalAI', () => {
  it('are read: all 1,709 models, at least 1,650 with a valid configuration, each other one with a reason', async () => {
    const { models, galleryUrl } = readCorpus(real)
    expect(models.leftOut).toEqual([])
    expect(models.entries).toHaveLength(1709)
    const { valid, refused } = await checkModels(models.entries, { bases, galleryUrl, signal })
    for (const { name, message } of refused) expect(message.length, name).toBeGreaterThan(10)
    expect(valid).toBeGreaterThanOrEqual(1650)
    expect(valid + refused.length).toBe(1709)
  })

  it('have 2,461 files, 86 of them archives', () => {
    const files = readCorpus(real).models.entries.flatMap((entry: ModelGalleryEntry) => entry.files)
    expect([files.length, files.filter(({ unpack }) => unpack === true).length]).toEqual([2461, 86])
    expect(files.filter(({ sha256 }) => sha256 === undefined)).toHaveLength(8)
    expect(files.every(({ uri }) => uri.startsWith('hf://') || uri.startsWith('https://'))).toBe(true)
  })

  it('have 1,033 backends: 5 names are there twice, and 140 meta backends resolve as in LocalAI', () => {
    const { entries, leftOut, leftOutCount } = readCorpus(real).backends
    expect([entries.length, leftOutCount]).toEqual([1028, 5])
    expect(leftOut.every(({ message }) => message.includes('same name'))).toBe(true)
    const names = new Set<string>(entries.map(({ name }) => name))
    const metas = entries.filter(isMeta)
    expect(metas).toHaveLength(140)
    for (const { name, capabilities } of metas)
      for (const [capability, build] of Object.entries(resolveMeta({ capabilities }))) {
        const original = capabilities[capability] ?? capabilities['default'] ?? capabilities['cpu']
        if (original !== undefined) expect(build, `${name} on ${capability}`).toBe(original)
        expect(build === null || names.has(build), `${name} on ${capability}`).toBe(true)
      }
    expect(reportedCapabilities).toHaveLength(11)
  })

  it('give a model the name of its overrides', async () => {
    const { models, galleryUrl } = readCorpus(real)
    const [entry] = models.entries.filter(({ name }) => name === 'glm-4.7-flash')
    const base = await bases.read({ url: entry?.localai?.base ?? '', galleryUrl }, signal)
    const merged = entry === undefined ? null : mergeEntry(entry, { base, changes: noChanges })
    expect(merged === null ? null : planModel(merged, []).config).toMatchObject({ name: 'GLM-4.7-Flash-GGUF', backend: 'llama-cpp' })
  })
})
