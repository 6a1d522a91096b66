import { BackendName } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { type SpecFacts, specOf } from '../../../test/serving-world.ts'
import { fieldsOf } from './client.ts'
import { companionsOf, isLlamaLike, type LoadFacts, toLoadOptions } from './load-options.pure.ts'

type Facts = Omit<SpecFacts, 'directory' | 'description'> & { backend?: string }
const GiB = 2 ** 30
const facts: LoadFacts = {
  fields: fieldsOf('ModelOptions'),
  threads: 3,
  smallestGpuBytes: null,
  trainedContext: null,
  companions: new Map(),
  isDelegated: true,
}
const spec = ({ backend = 'scripted', ...given }: Facts) => ({
  ...specOf('r-1', { directory: '/tree', description: null, ...given }),
  backend: BackendName.parse(backend),
})
const plan = (given: Facts, more: Partial<LoadFacts> = {}) => toLoadOptions(spec(given), { ...facts, ...more })
const load = (given: Facts, more: Partial<LoadFacts> = {}) => plan(given, more).options

describe('load options', () => {
  it('have the file, its directory, and the identity that requests repeat', () => {
    expect(load({ parameters: { model: 'sub/x.gguf' }, modelPath: '/tree/models/sub/x.gguf', contextSize: 512 })).toMatchObject({
      Model: 'sub/x.gguf',
      ModelFile: '/tree/models/sub/x.gguf',
      ModelPath: '/tree/models',
      ContextSize: 512,
      Threads: 3,
    })
    expect(load({ model: 'org/name' })).toMatchObject({ Model: 'org/name', ModelFile: '', ContextSize: 4096 })
  })

  it('have the defaults of LocalAI', () => {
    expect(load({})).toMatchObject({
      NBatch: 512,
      MMap: true,
      NGPULayers: 99_999_999,
      FlashAttention: 'auto',
      Embeddings: false,
      Options: [],
    })
    expect(load({})).not.toHaveProperty('F16Memory')
    expect(load({ backend: 'intel-sycl-f16-llama-cpp', parameters: { mmap: true } })).toMatchObject({ MMap: false })
  })

  it('have options as key:value', () => {
    expect(load({ options: { a: 'b:c', n: 1, on: true, list: [1] } })).toMatchObject({ Options: ['a:b:c', 'n:1', 'on:true', 'list:[1]'] })
  })

  it('have a list of options unchanged', () => {
    expect(load({ options: ['word', 'a=b', 'a=b', '-x'] })).toMatchObject({ Options: ['word', 'a=b', 'a=b', '-x'] })
  })

  it.each<[string, unknown, string, unknown]>([
    ['threads', 7, 'Threads', 7],
    ['gpu_layers', 12, 'NGPULayers', 12],
    ['f16', false, 'F16Memory', false],
    ['mmlock', true, 'MLock', true],
    ['mmproj', 'p.gguf', 'MMProj', 'p.gguf'],
    ['gpu_memory_utilization', 0.5, 'GPUMemoryUtilization', 0.5],
    ['lora_adapters', ['a', 'b'], 'LoraAdapters', ['a', 'b']],
    ['cache_type_k', 'q8_0', 'CacheTypeKey', 'q8_0'],
    ['embeddings', true, 'Embeddings', true],
    ['disable_log_stats', true, 'DisableLogStatus', true],
    ['limit_image_per_prompt', 2, 'LimitImagePerPrompt', 2],
    ['limit_mm_per_prompt', { audio: 3 }, 'LimitAudioPerPrompt', 3],
    ['pipeline_type', 'Flux', 'PipelineType', 'Flux'],
    ['batch', 64, 'NBatch', 64],
    ['engine_args', { a: { b: 1 } }, 'EngineArgs', '{"a":{"b":1}}'],
    ['engine_args', '{"a":1}', 'EngineArgs', '{"a":1}'],
  ])('takes parameters.%s', (key, value, field, want) => {
    const { options, unused } = plan({ parameters: { [key]: value } })
    expect(options).toMatchObject({ [field]: want })
    expect(unused).toEqual([])
  })

  it('leave out request parameters and unknown ones', () => {
    const { options, unused } = plan({ parameters: { temperature: 0.2, seed: 4, stop: ['x'], voice: 'v', whatever: 1, other: null } })
    expect(Object.keys(options).toSorted()).toEqual(Object.keys(load({})).toSorted())
    expect(unused).toEqual(['whatever', 'other'])
  })

  it.each([
    ['threads', '7', /parameters\.threads of the model m must be a int32/],
    ['lora_adapters', [1], /must be a list of string/],
    ['grammar_triggers', [{}], /must be a list of message/],
  ])('refuses parameters.%s = %j', (key, value, message) => {
    expect(() => load({ parameters: { [key]: value } })).toThrow(message)
  })

  it('have the words that start a grammar', () => {
    expect(load({ function: { grammar: { triggers: [{ word: '<tool>' }] } } })).toMatchObject({ GrammarTriggers: [{ word: '<tool>' }] })
  })

  it.each<[string, Facts, Partial<LoadFacts>, object]>([
    ['the trained one', { contextSize: -1 }, { trainedContext: 32_768 }, { ContextSize: 32_768 }],
    ['4096 if that is unknown', { contextSize: -1 }, {}, { ContextSize: 4096 }],
    ['that of the parameters', { parameters: { context_size: 77 } }, {}, { ContextSize: 77 }],
  ])('have a context: %s', (_, given, more, want) => expect(load(given, more)).toMatchObject(want))

  it.each<[string, Facts, object]>([
    ['embeddings by use case', { usecases: ['embeddings'] }, { Embeddings: true, NBatch: 4096 }],
    [
      'no embeddings although the use case is there',
      { usecases: ['embeddings'], parameters: { embeddings: false } },
      { Embeddings: false, NBatch: 512 },
    ],
    ['a batch of the context for rerankers', { parameters: { reranking: true }, contextSize: 2048 }, { Reranking: true, NBatch: 2048 }],
    ['the batch that the model names', { parameters: { embeddings: true, batch: 9 } }, { NBatch: 9 }],
  ])('have %s', (_, given, want) => expect(load(given)).toMatchObject(want))
})

describe('a companion file', () => {
  const parameters = {
    model: 'llm/x.gguf',
    mmproj: 'p.gguf',
    draft_model: 'sub/d.gguf',
    lora_adapter: 'lora/l.gguf',
    lora_adapters: ['lora/l.gguf'],
  }
  const companions = new Map([
    ['p.gguf', '/tree/models/p.gguf'],
    ['sub/d.gguf', '/tree/models/sub/d.gguf'],
    ['lora/l.gguf', '/tree/models/lora/l.gguf'],
  ])
  const given = { parameters, modelPath: '/tree/models/llm/x.gguf' }

  it('has its full path', () => {
    expect(companionsOf(spec(given))).toEqual(['p.gguf', 'sub/d.gguf', 'lora/l.gguf', 'lora/l.gguf'])
    expect(load({ ...given, backend: 'vllm' }, { companions })).toMatchObject({
      MMProj: '/tree/models/p.gguf',
      DraftModel: '/tree/models/sub/d.gguf',
      LoraAdapter: '/tree/models/lora/l.gguf',
      LoraAdapters: ['/tree/models/lora/l.gguf'],
    })
  })

  it('that llama.cpp looks for beside the model file has the path from there', () => {
    expect(load({ ...given, backend: 'llama-cpp' }, { companions })).toMatchObject({
      MMProj: '/tree/models/p.gguf',
      LoraAdapter: '../lora/l.gguf',
      LoraAdapters: ['../lora/l.gguf'],
    })
  })

  it('that is not in the folder is sent unchanged', () => {
    expect(load(given)).toMatchObject({ MMProj: 'p.gguf', DraftModel: 'sub/d.gguf' })
  })
})

describe('serving options', () => {
  it.each<[string, Facts, Partial<LoadFacts>, string[]]>([
    ['of llama-cpp', { backend: 'llama-cpp' }, {}, ['cache_reuse:256', 'use_jinja:true']],
    ['of a build of it', { backend: 'cuda12-llama-cpp-development' }, {}, ['cache_reuse:256', 'use_jinja:true']],
    ['with a template of the model file', { backend: 'llama-cpp' }, { isDelegated: false }, ['cache_reuse:256']],
    ['of a relative', { backend: 'ik-llama-cpp' }, { smallestGpuBytes: 80 * GiB }, ['use_jinja:true']],
    ['of another engine', { backend: 'vllm' }, { smallestGpuBytes: 80 * GiB }, []],
    ['with 4 GiB', { backend: 'llama-cpp' }, { smallestGpuBytes: 4 * GiB }, ['cache_reuse:256', 'parallel:2', 'use_jinja:true']],
    ['with 8 GiB', { backend: 'llama-cpp' }, { smallestGpuBytes: 8 * GiB }, ['cache_reuse:256', 'parallel:4', 'use_jinja:true']],
    ['with 32 GiB', { backend: 'llama-cpp' }, { smallestGpuBytes: 32 * GiB }, ['cache_reuse:256', 'parallel:8', 'use_jinja:true']],
    [
      'with a very large context',
      { backend: 'llama-cpp', contextSize: 131_072 },
      { smallestGpuBytes: 32 * GiB },
      ['cache_reuse:256', 'use_jinja:true'],
    ],
    [
      'that the model sets',
      { backend: 'llama-cpp', options: ['n_cache_reuse:1', 'n_parallel=1', 'jinja'] },
      { smallestGpuBytes: 32 * GiB },
      ['n_cache_reuse:1', 'n_parallel=1', 'jinja'],
    ],
    [
      'that the model sets by name',
      { backend: 'llama-cpp', options: { use_jinja: 'false', cache_reuse: 0 } },
      {},
      ['use_jinja:false', 'cache_reuse:0'],
    ],
  ])('%s', (_, given, more, want) => expect(load(given, more)).toMatchObject({ Options: want }))
})

it.each([
  ['llama-cpp', true],
  ['rocm-llama-cpp', true],
  ['ds4', true],
  ['llama', false],
  ['vllm-cpp', false],
  ['whisper', false],
])('%s is of the llama.cpp family: %s', (backend, want) => expect(isLlamaLike(backend)).toBe(want))
