import { describe, expect, it } from 'vitest'
import { type ImportPlan, planImport } from './localai-import.pure.ts'

const both = [
  { name: 'llama', installed: false },
  { name: 'llama-cpp', installed: false },
  { name: 'vllm', installed: true },
]
const [llama] = both
const known = llama === undefined ? [] : [llama]

describe('an import', () => {
  it.each<[string, string]>([
    ['https://h.example/a/phi-3.Q4.gguf?download=true', 'https://h.example/a/phi-3.Q4.gguf?download=true'],
    ['huggingface://owner/repo/phi-3.Q4.gguf', 'hf://owner/repo/phi-3.Q4.gguf'],
    ['hf://owner/repo/sub/phi-3.Q4.gguf', 'hf://owner/repo/sub/phi-3.Q4.gguf'],
    ['https://huggingface.co/owner/repo/resolve/main/phi-3.Q4.gguf', 'hf://owner/repo/phi-3.Q4.gguf'],
    ['https://huggingface.co/owner/repo/blob/main/phi-3.Q4.gguf?download=true', 'hf://owner/repo/phi-3.Q4.gguf'],
    ['s3://bucket/phi-3.Q4.gguf', 's3://bucket/phi-3.Q4.gguf'],
    ['file:///models/phi-3.Q4.gguf', 'file:///models/phi-3.Q4.gguf'],
  ])('of %s', (uri, want) => {
    expect(planImport({ uri }, known)).toEqual({
      kind: 'config',
      config: {
        ...{ name: 'phi-3.Q4', backend: 'llama', parameters: { model: 'phi-3.Q4.gguf' } },
        files: [{ uri: want, filename: 'phi-3.Q4.gguf' }],
      },
    })
  })

  it('takes name, backend and description from the preferences', () => {
    const preferences = { name: 'mine', backend: 'vllm', description: 'for tests' }
    expect(planImport({ uri: 'hf://o/r/x.safetensors', preferences }, both)).toMatchObject({
      kind: 'config',
      config: { name: 'mine', backend: 'vllm', description: 'for tests', parameters: { model: 'x.safetensors' } },
    })
  })

  it('chooses the installed engine before those that are only offered', () => {
    const installed = both.map((each) => ({ ...each, installed: each.name === 'llama-cpp' }))
    expect(planImport({ uri: 'https://h.example/a.gguf' }, installed)).toMatchObject({ config: { backend: 'llama-cpp' } })
  })

  it.each<[string, string, readonly string[], Partial<ImportPlan>]>([
    ['several engines', 'https://h.example/a.gguf', ['llama', 'llama-cpp'], { modality: 'text' }],
    ['an unknown kind of file', 'https://h.example/a.safetensors', ['llama', 'llama-cpp', 'vllm'], { modality: '' }],
    ['no engine', 'https://h.example/ggml-base.bin', [], { modality: 'asr', detail: 'no gallery offers a backend for ggml-base.bin' }],
  ])('with %s is ambiguous', (_, uri, candidates, more) => {
    expect(planImport({ uri }, both)).toMatchObject({ kind: 'ambiguous', candidates, ...more })
  })

  it.each([
    ['a repository', 'hf://owner/repo'],
    ['a host', 'https://h.example'],
    ['an unknown scheme', 'ollama://phi'],
    ['content of Muster itself', `upload:sha256:${'a'.repeat(64)}`],
    ['a name that is none', 'https://h.example/%2e%2e%2fx.gguf'],
  ])('of %s is refused', (_, uri) => {
    expect(planImport({ uri }, known)).toMatchObject({ kind: 'refused', message: expect.stringContaining(JSON.stringify(uri)) as string })
  })

  it('with a backend that is no name is refused', () => {
    expect(planImport({ uri: 'hf://o/r/x.gguf', preferences: { backend: '../x' } }, known)).toMatchObject({ kind: 'refused' })
  })
})
