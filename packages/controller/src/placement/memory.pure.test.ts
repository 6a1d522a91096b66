import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type GgufFacts, Resources } from '@muster/protocol'
import { readGgufFacts } from '@muster/source'
import { describe, expect, it } from 'vitest'
import { deviceOf, deviceOfBuild, type KnownFile, MemoryConfig, memoryOf, needOf } from './memory.pure.ts'

const MiB = 2 ** 20
const tiny = factsIn('models/tiny/tiny.gguf')
const weights = tiny.tensors.bytes ?? 0
const cache = (tokens: number): number => tokens * (4 * 2 * 160 * 2 + 64)
const projector: GgufFacts = { ...tiny, kind: 'projector', tensors: { ...tiny.tensors, bytes: 1_000 } }

function factsIn(path: string): GgufFacts {
  const reading = readGgufFacts(readFileSync(join(import.meta.dirname, '../../../..', path)))
  return reading.kind === 'facts' ? reading.facts : expect.fail()
}

const file = (filename: string) => ({ uri: `https://example.com/${filename}`, filename })
const known: Readonly<Record<string, KnownFile>> = {
  'tiny.gguf': { size: 2_880_992, facts: tiny },
  'part-2.gguf': { size: 500, facts: { ...tiny, layers: undefined, part: 1, tensors: { ...tiny.tensors, bytes: 400 } } },
  'mmproj.gguf': { size: 1_100, facts: projector },
  'draft.gguf': { size: 2_880_992, facts: tiny },
  'odd.gguf': { size: 7_000, facts: { ...tiny, tensors: { ...tiny.tensors, bytes: null } } },
  'weights.bin': { size: 1_000, facts: null },
}
const memory = (config: object) => {
  const parsed = MemoryConfig.parse({ backend: 'llama', files: [file('tiny.gguf')], ...config })
  return memoryOf(parsed, ({ filename }) => known[filename] ?? { size: null, facts: null })
}
const cpp = { backend: 'llama-cpp' }

describe('the memory of a model', () => {
  it.each<[string, object, object]>([
    ['of the built-in backend has a context for each of four slots', {}, { kvCache: cache(4 * 512), process: 144 * MiB }],
    ['has the slots of its options', { options: { parallel: 8 }, context_size: 65_536 }, { kvCache: cache(8 * 65_536) }],
    ['has the slots by their other name', { options: { sequences: 2 } }, { kvCache: cache(2 * 512) }],
    [
      'has one more context for embeddings',
      { options: { parallel: 1 }, known_usecases: ['chat', 'embeddings'] },
      { kvCache: cache(2 * 512) },
    ],
    ['has the trained context when all of it is wanted', { options: { parallel: 1 }, context_size: -1 }, { kvCache: cache(512) }],
    ['of llama.cpp has 4,096 tokens by default', cpp, { kvCache: cache(4_096) }],
    [
      'of llama.cpp reads a text to embed in one batch',
      { ...cpp, context_size: 1_024, known_usecases: ['embeddings'] },
      { compute: 1_024 * 4 * (6 * 160 + 2 * 448 + 960 + 1_024) },
    ],
    [
      'of llama.cpp divides one context among its slots',
      { ...cpp, context_size: 4_096, options: { n_parallel: 4 } },
      { kvCache: cache(4_096) },
    ],
    [
      'reads options that are a list',
      { ...cpp, options: ['parallel:2', 'swa_full', 'cache_type_k:q8_0'], context_size: 1_024 },
      { kvCache: 1_024 * (4 * 160 * (2 + 34 / 32) + 64) },
    ],
    [
      'reads parameters',
      { ...cpp, parameters: { context_size: 2_048, cache_type_k: 'q8_0', cache_type_v: 'q8_0' } },
      { kvCache: 2_048 * (4 * 2 * 160 * (34 / 32) + 64) },
    ],
    [
      'reads keys of the configuration itself',
      { ...cpp, context_size: 2_048, cache_type_k: 'f32', cache_type_v: 'f32' },
      { kvCache: 2_048 * (4 * 2 * 160 * 4 + 64) },
    ],
    ['adds up the parts of a split model', { files: [file('tiny.gguf'), file('part-2.gguf')] }, { weights: weights + 400 }],
    ['has a projector', { files: [file('tiny.gguf'), file('mmproj.gguf')] }, { weights, mmproj: 1_200 }],
    [
      'has a draft model with a cache of its own',
      { ...cpp, context_size: 512, draft_model: 'draft.gguf', files: [file('tiny.gguf'), file('draft.gguf')] },
      { weights: 2 * weights, kvCache: 2 * cache(512) },
    ],
    ['has files that are not GGUF', { files: [file('tiny.gguf'), file('weights.bin')] }, { weights: weights + 1_000 }],
    ['has the size of a file whose tensors are of unknown types', { files: [file('odd.gguf')] }, { weights: 7_000 }],
    [
      'is that of the file that the parameters name',
      { parameters: { model: 'tiny.gguf' }, files: [file('odd.gguf'), file('tiny.gguf')] },
      { layers: 4 },
    ],
  ])('%s', (_, config, want) => {
    expect(memory(config)).toMatchObject({ basis: 'gguf', estimate: want })
  })

  it('of a file without a known header is its size, a tenth more and 64 MiB', () => {
    expect(memory({ files: [file('weights.bin')] })).toMatchObject({
      basis: 'size',
      cpu: { ram: 1_100 + 64 * MiB, vram: 0 },
      gpu: { ram: 0, vram: needOf([1_000]) },
    })
  })

  it('of a file of which nothing is known is unknown, and books nothing', () => {
    expect(memory({ files: [file('other')] })).toMatchObject({ basis: 'unknown', cpu: { ram: 0, vram: 0 }, gpu: { ram: 0, vram: 0 } })
  })

  it('is in RAM for the layers that are not on a GPU', () => {
    const [all, half] = [memory({ ...cpp }).gpu, memory({ ...cpp, parameters: { gpu_layers: 2 } }).gpu]
    expect(half.vram).toBeLessThan(all.vram)
    expect(half.ram).toBeGreaterThan(all.ram)
    expect(memory({ ...cpp, options: { gpu_layers: -1 } }).gpu).toEqual(all)
  })

  it.each<[string, object]>([
    ['numbers that are none', { context_size: 'much', options: { parallel: {}, batch_size: [] } }],
    ['numbers beyond all bounds', { context_size: 1e300, options: { parallel: 1e9, batch_size: 1e12 } }],
    ['parts of other types', { parameters: 5, options: 'x', known_usecases: 1 }],
  ])('is a number for %s', (_, config) => {
    expect(Number.isSafeInteger(memory(config).cpu.ram)).toBe(true)
  })
})

describe('the device', () => {
  it.each<[string, ReturnType<typeof deviceOfBuild>]>([
    ['builtin://llama@sha256:00', 'cpu'],
    ['oci://quay.io/example/backends:latest-cpu-llama-cpp', 'cpu'],
    ['oci://quay.io/example/backends:latest-gpu-nvidia-cuda-12-llama-cpp', 'gpu'],
    ['https://example.com/llama-vulkan-linux-amd64.tar.gz', 'gpu'],
    ['https://example.com/llama-linux-amd64.tar.gz', null],
    ['oci://example.com/cpuid:1', null],
    ['', null],
  ])('of the build %s is %s', (build, want) => {
    expect(deviceOfBuild(build)).toBe(want)
  })

  it.each<[string, Partial<Parameters<typeof deviceOf>[0]>, number | null, ReturnType<typeof deviceOf>]>([
    ['the GPU', {}, null, 'gpu'],
    ['the processor without a GPU', { capability: 'default' }, null, 'cpu'],
    ['the processor when the memory of the GPU is unknown', { resources: Resources.parse({}) }, null, 'cpu'],
    ['the processor with a build for it', { build: 'cpu-llama-cpp' }, null, 'cpu'],
    ['the processor when no layer is to be on the GPU', {}, 0, 'cpu'],
    ['the GPU for some layers', {}, 5, 'gpu'],
  ])('of a replica is %s', (_, over, gpuLayers, want) => {
    const node = { resources: Resources.parse({ total_vram: 24e9 }), capability: 'nvidia-cuda-12', build: 'cuda12-llama-cpp', ...over }
    expect(deviceOf(node, { gpuLayers })).toBe(want)
  })
})
