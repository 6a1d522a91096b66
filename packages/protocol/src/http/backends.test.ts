import { describe, expect, it } from 'vitest'
import { InstallRequest, parseBackendReference } from './backends.ts'

describe('a backend to install', () => {
  it.each([
    ['llama', null, 'llama'],
    ['localai@cuda12-llama.cpp+x', 'localai', 'cuda12-llama.cpp+x'],
  ])('%s', (backend, gallery, name) => {
    expect(InstallRequest.parse({ backend })).toEqual({ backend })
    expect(parseBackendReference(backend)).toEqual({ gallery, backend: name })
  })

  it.each(['', '@', '@llama', 'localai@', 'a@b@c', 'a b', '../a', 'a@../b', `${'g'.repeat(64)}@a`])('is refused: %j', (backend) => {
    expect(InstallRequest.safeParse({ backend }).error?.issues[0]?.message).toMatch(/GALLERY@NAME/)
  })
})
