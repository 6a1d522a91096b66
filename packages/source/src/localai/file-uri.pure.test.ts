import { parseModelUri } from '../file/model-uri.ts'
import { describe, expect, it } from 'vitest'
import { archiveKind, convertFileUri } from './file-uri.pure.ts'

describe('the address of a file', () => {
  it.each([
    ['huggingface://owner/repo/model.gguf', 'hf://owner/repo/model.gguf'],
    ['huggingface://owner/repo/a/b/model.gguf', 'hf://owner/repo/a/b/model.gguf'],
    ['hf://owner/repo/model.gguf', 'hf://owner/repo/model.gguf'],
    ['hf.co/owner/repo/model.gguf', 'hf://owner/repo/model.gguf'],
    ['huggingface://owner/repo/voz-tugão.onnx', 'hf://owner/repo/voz-tug%C3%A3o.onnx'],
    ['https://huggingface.co/owner/repo/resolve/main/model.gguf', 'hf://owner/repo/model.gguf'],
    ['https://huggingface.co/owner/repo/resolve/main/model.gguf?download=true', 'hf://owner/repo/model.gguf'],
    ['https://huggingface.co/owner/repo/resolve/0abc/tug%C3%A3o.onnx', 'hf://owner/repo@0abc/tug%C3%A3o.onnx'],
    ['https://example.com/releases/voice tugão.tar.gz', 'https://example.com/releases/voice%20tug%C3%A3o.tar.gz'],
    ['http://example.com/f', 'http://example.com/f'],
    ['file:///models/f.gguf', 'file:///models/f.gguf'],
    ['github:owner/repo/path/f.bin@v1', 'https://raw.githubusercontent.com/owner/repo/v1/path/f.bin'],
    ['github://owner/repo/f.bin', 'https://raw.githubusercontent.com/owner/repo/main/f.bin'],
    ['ollama://gemma:2b', 'oci://registry.ollama.ai/library/gemma:2b'],
    ['ollama://gemma', 'oci://registry.ollama.ai/library/gemma:latest'],
    ['ollama://someone/gemma:2b', 'oci://registry.ollama.ai/someone/gemma:2b'],
    ['oci://registry.example.com/models/tiny:1', 'oci://registry.example.com/models/tiny:1'],
    ['registry.example.com/models/tiny:1', 'oci://registry.example.com/models/tiny:1'],
    ['s3://bucket/key', 's3://bucket/key'],
  ])('%s becomes %s', (text, uri) => {
    expect(convertFileUri(text)).toEqual({ uri })
    expect(() => parseModelUri(uri)).not.toThrow()
  })

  it.each([
    ['ocifile:///tmp/image.tar', 'push it to a registry'],
    ['gopher://h/f', 'unsupported file URI "gopher://h/f"'],
    ['', 'unsupported file URI ""'],
    ['model.gguf', 'unsupported file URI'],
    ['github:owner', 'github:owner/repo/path@ref'],
    ['https://user:secret@h/f', 'without a password'],
  ])('%s is refused: %s', (text, reason) => {
    expect(convertFileUri(text)).toEqual({ problem: expect.stringContaining(reason) as string })
  })
})

it.each([
  ['a.tar.gz', 'archive'],
  ['a.TGZ', 'archive'],
  ['a.tar.bz2', 'archive'],
  ['a.tar.xz', 'archive'],
  ['a.tar.zst', 'archive'],
  ['a.tar', 'archive'],
  ['folder/a.zip', 'archive'],
  ['a.rar', 'unsupported'],
  ['a.gguf', null],
  ['a.gz', null],
  ['zip', null],
])('%s is unpacked by its name: %s', (filename, kind) => {
  expect(archiveKind(filename)).toBe(kind)
})
