import { BackendName } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import type { InstallRequest } from '../operations/installer.ts'
import { findSource, sourceProblem } from './find-source.ts'

const request: InstallRequest = { backend: BackendName.parse('llama'), mode: 'install', uri: 'oci://a.example/llama:1' }
const context = {
  galleries: [],
  node: { os: 'linux', arch: 'x64', capability: 'default' },
  signal: new AbortController().signal,
}

describe('a source named by a command', () => {
  it('W33 is tried first, its mirrors after it', async () => {
    const mirrors = ['b.example/llama:1', 'oci://c.example/llama:1']
    expect((await findSource({ ...request, mirrors }, context)).uris).toEqual([request.uri, ...mirrors])
  })
  it.each([
    ['oci://b.example/llama:1', null],
    ['https://b.example/llama.tar.gz', /another kind/],
    ['ftp://b.example/llama', /another kind/],
  ])('has the mirror %s only if it is of the same kind', (mirror, problem) => {
    const said = sourceProblem({ ...request, mirrors: [mirror] })
    if (problem === null) expect(said).toBeNull()
    else expect(said).toMatch(problem)
  })
})
