import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { applySnapshots, type Artifact, findArtifacts, matchesGlob, snapshotFiles } from './artifacts.pure.ts'

const source = (repo: string, more: object = {}) => ({ type: 'huggingface', repo, ...more })
const listed = (...artifacts: object[]) => ({ backend: 'x', parameters: { model: 'owner/name' }, artifacts })

describe('findArtifacts', () => {
  it('reads the model and its companions', () => {
    const config = listed(
      {
        name: 'model',
        target: 'model',
        source: source('owner/name', { revision: 'abc', allow_patterns: ['*.json'], ignore_patterns: ['x'] }),
      },
      { name: 'base_model', target: 'companion', source: source('owner/base') },
    )
    expect(findArtifacts(config, [])).toEqual({
      artifacts: [
        { name: 'model', role: 'model', repository: 'owner/name', revision: 'abc', allow: ['*.json'], ignore: ['x'], folder: 'owner/name' },
        { name: 'base_model', role: 'companion', repository: 'owner/base', revision: 'main', allow: [], ignore: [], folder: 'base_model' },
      ],
    })
  })

  it.each<[string, object, string[], string[]]>([
    ['a repository for a backend that gets a snapshot', { backend: 'vllm', parameters: { model: 'owner/name' } }, [], ['owner/name']],
    ['also by the name of an alias', { backend: 'sentencetransformers', parameters: { model: 'o/n' } }, [], ['o/n']],
    ['not for another backend', { backend: 'llama-cpp', parameters: { model: 'owner/name' } }, [], []],
    ['not for a file of the model', { backend: 'vllm', parameters: { model: 'dir/w.gguf' } }, ['dir/w.gguf'], []],
    ['not for a folder of its files', { backend: 'vllm', parameters: { model: 'dir/sub' } }, ['dir/sub/w.bin'], []],
    ['not for a plain word', { backend: 'transformers', parameters: { model: 'all-MiniLM' } }, [], []],
    ['not without parameters', { backend: 'vllm' }, [], []],
  ])('finds %s', (_, config, files, repositories) => {
    const found = findArtifacts(config as Record<string, unknown>, files)
    expect('artifacts' in found ? found.artifacts.map(({ repository }) => repository) : found).toEqual(repositories)
  })

  it.each<[string, object, string]>([
    ['text instead of a list', { artifacts: 'x' }, 'artifacts: expected a list'],
    ['no source', listed({ name: 'model' }), 'artifacts.0: expected a mapping'],
    ['another kind of source', listed({ source: { type: 'git', repo: 'a/b' } }), '"git" is not huggingface'],
    ['a path instead of a repository', listed({ source: source('../etc') }), 'repo: expected owner/name'],
    ['a companion with a path as its name', listed({ name: '../x', target: 'companion', source: source('a/b') }), 'a companion has a name'],
    ['two models', listed({ source: source('a/b') }, { source: source('a/c') }), 'only the first artifact is the model'],
  ])('refuses %s', (_, config, reason) => {
    expect(findArtifacts(config as Record<string, unknown>, [])).toEqual({ problem: expect.stringContaining(reason) as string })
  })
})

describe('snapshots', () => {
  const artifact: Artifact = { name: 'model', role: 'model', repository: 'o/n', revision: 'main', allow: [], ignore: [], folder: 'o/n' }
  const files = [
    { path: 'config.json', size: 10, sha256: null },
    { path: 'sub dir/w.safetensors', size: 20, sha256: 'a'.repeat(64) },
  ]
  const listing = { commit: 'c'.repeat(40), files }

  it('become files of the model at one commit', () => {
    expect(snapshotFiles({ artifact, listing })).toEqual([
      { uri: `hf://o/n@${listing.commit}/config.json`, filename: 'o/n/config.json' },
      { uri: `hf://o/n@${listing.commit}/sub%20dir/w.safetensors`, filename: 'o/n/sub dir/w.safetensors', sha256: 'a'.repeat(64) },
    ])
  })

  it('are named by parameters.model: the folder, or the only file; companions by an option', () => {
    const config = { backend: 'x', parameters: { model: 'o/n', top_k: 1 }, options: ['a:b'], artifacts: [{}] }
    const companion: Artifact = { ...artifact, role: 'companion', name: 'base_model', folder: 'base_model' }
    expect(
      applySnapshots(config, [
        { artifact, listing },
        { artifact: companion, listing },
      ]),
    ).toEqual({
      backend: 'x',
      parameters: { model: 'o/n', top_k: 1 },
      options: ['a:b', 'base_model:base_model'],
    })
    const only = applySnapshots(config, [{ artifact: { ...artifact, allow: ['*.json'] }, listing }])
    expect(only).toMatchObject({ parameters: { model: 'o/n/config.json' } })
    const own = applySnapshots({ ...config, options: ['base_model=/x'] }, [{ artifact: companion, listing }])
    expect(own).toMatchObject({ options: ['base_model=/x'] })
  })
})

describe('matchesGlob', () => {
  it.each([
    ['config.json', 'config.json', true],
    ['sub/config.json', 'config.json', false],
    ['a/b/w.safetensors', '*.safetensors', true],
    ['scheduler/x/y.json', 'scheduler/**', true],
    ['scheduler', 'scheduler/', false],
    ['scheduler/x', 'scheduler/', true],
    ['w1.bin', 'w?.bin', true],
    ['w12.bin', 'w?.bin', false],
    ['a.b', 'a+b', false],
    ['', '*', true],
  ])('%s matches %s: %s', (path, pattern, isMatched) => {
    expect(matchesGlob(path, pattern)).toBe(isMatched)
  })

  it('takes no longer for a hostile pattern', () => {
    const before = process.cpuUsage()
    expect(matchesGlob(`${'a'.repeat(1000)}b`, `${'*a'.repeat(100)}c`)).toBe(false)
    expect(process.cpuUsage(before).user / 1e6, 'CPU seconds').toBeLessThan(2)
  })

  it('agrees with a regular expression', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '/'), maxLength: 8 })
    const glob = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 6 })
    fc.assert(
      fc.property(text, glob, (path, pattern) => {
        const expression = new RegExp(`^${pattern.replaceAll('*', '.*').replaceAll('?', '.')}$`)
        expect(matchesGlob(path, pattern)).toBe(expression.test(path))
      }),
    )
  })
})
