import { describe, expect, it } from 'vitest'
import { specOf } from '../../../test/serving-world.ts'
import { fieldsOf } from './client.ts'
import { toLoadOptions } from './load-options.pure.ts'

const fields = fieldsOf('ModelOptions')
const load = (facts: Omit<Parameters<typeof specOf>[1], 'directory' | 'description'>) =>
  toLoadOptions(specOf('r-1', { directory: '/tree', description: null, ...facts }), fields, 3)

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

  it('have options as key:value', () => {
    expect(load({ options: { a: 'b:c', n: 1, on: true, list: [1] } })).toMatchObject({ Options: ['a:b:c', 'n:1', 'on:true', 'list:[1]'] })
  })

  it('have a list of options unchanged', () => {
    expect(load({ options: ['b=1', 'a', 'b:2'] })).toMatchObject({ Options: ['b=1', 'a', 'b:2'] })
  })

  it.each<[string, unknown, string, unknown]>([
    ['threads', 7, 'Threads', 7],
    ['gpu_layers', 12, 'NGPULayers', 12],
    ['f16', false, 'F16Memory', false],
    ['mmproj', 'p.gguf', 'MMProj', 'p.gguf'],
    ['gpu_memory_utilization', 0.5, 'GPUMemoryUtilization', 0.5],
    ['lora_adapters', ['a', 'b'], 'LoraAdapters', ['a', 'b']],
    ['cache_type_k', 'q8_0', 'CacheTypeKey', 'q8_0'],
    ['embeddings', true, 'Embeddings', true],
  ])('takes parameters.%s', (key, value, field, want) => {
    expect(load({ parameters: { [key]: value } })).toMatchObject({ [field]: want })
  })

  it('leave out request parameters and unknown ones', () => {
    const options = load({ parameters: { temperature: 0.2, seed: 4, whatever: 1 } })
    expect(Object.keys(options).toSorted()).toEqual(Object.keys(load({})).toSorted())
  })

  it.each([
    ['threads', '7', /parameters\.threads of the model m must be a int32/],
    ['lora_adapters', [1], /must be a list of string/],
    ['grammar_triggers', [{}], /must be a list of message/],
  ])('refuses parameters.%s = %j', (key, value, message) => {
    expect(() => load({ parameters: { [key]: value } })).toThrow(message)
  })
})
