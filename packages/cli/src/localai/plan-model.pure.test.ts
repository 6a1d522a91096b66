import { applySnapshots, archiveKind, convertFileUri, convertModel, findArtifacts, localAiModelKeys, snapshotFiles } from '@muster/source'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkConfig, type Convert, planModel } from './plan-model.pure.ts'
import { foldersOf, type Mapping, type SiteModel, type SiteRule } from './site.ts'

const sha = 'c'.repeat(64)
/** Keys stay as they are; `bad` is refused, `idle` has no effect. */
const convert: Convert = {
  convertModel: ({ bad, idle, ...source }) => ({
    config: source,
    keys: [
      ...(bad === undefined ? [] : [{ key: 'bad', outcome: 'refused', message: 'not here' }]),
      ...(idle === undefined ? [] : [{ key: 'idle', outcome: 'no_effect', message: 'not needed' }]),
    ],
  }),
  archiveKind: () => null,
  findArtifacts: () => ({ artifacts: [] }),
  applySnapshots: (config) => config,
  snapshotFiles: () => [],
  convertFileUri: (text) => (text.startsWith('x:') ? { problem: `no source ${text}` } : { uri: text }),
}
const artifactConvert: Convert = {
  ...convert,
  applySnapshots,
  findArtifacts,
  snapshotFiles,
  archiveKind: (name) => (name.endsWith('.tar.gz') ? 'archive' : null),
}
const names = ['m.gguf', 'sub/mm.gguf', 'sub/deep/vae.bin', 'chat.tmpl', 'other.yaml']
const local = {
  sizes: new Map(names.map((name) => [name, 1])),
  folders: foldersOf(names),
  listings: new Map([
    [
      'org/repo',
      {
        commit: 'abcdef0',
        files: [
          { path: 'config.json', size: 1, sha256: sha },
          { path: 'w/m.bin', size: 1, sha256: null },
        ],
      },
    ],
  ]),
  templates: new Map([
    ['chatml', 'TEMPLATE'],
    ['m.gguf', 'BESIDE'],
  ]),
}
const plan = (source: Mapping, more: Partial<SiteModel> & { rule?: SiteRule; defaults?: Mapping; by?: Convert } = {}) =>
  planModel(
    {
      model: { from: 'models/m.yaml', source: { name: 'm', backend: 'b', ...source }, files: more.files ?? [] },
      local,
      defaults: more.defaults ?? {},
      rule: more.rule,
    },
    more.by ?? convert,
  )

describe('repositories and archives', () => {
  it('become files by the listing that LocalAI kept', () => {
    const artifacts = [{ name: 'model', target: 'model', source: { repo: 'org/repo' } }]
    const { config } = plan({ parameters: { model: 'org/repo' }, artifacts }, { by: artifactConvert })
    expect(config).toMatchObject({ parameters: { model: 'org/repo' } })
    expect(config).not.toHaveProperty('artifacts')
    expect(config['files']).toEqual([
      { uri: 'hf://org/repo@abcdef0/config.json', filename: 'org/repo/config.json', sha256: sha },
      { uri: 'hf://org/repo@abcdef0/w/m.bin', filename: 'org/repo/w/m.bin' },
    ])
  })

  it('stay as they are without a listing', () => {
    const artifacts = [{ name: 'model', source: { repo: 'org/other' } }]
    expect(plan({ artifacts }, { by: artifactConvert }).config).toMatchObject({ artifacts })
  })

  it('are unpacked by workers; the content beside an archive is not sent', () => {
    const files = [{ filename: 'voice.tar.gz', uri: 'https://h/voice.tar.gz', sha256: sha }]
    const { config, localFiles, losses } = plan({ parameters: { model: 'm.gguf' } }, { files, by: artifactConvert })
    expect(config['files']).toEqual([{ uri: 'https://h/voice.tar.gz', filename: 'voice.tar.gz', sha256: sha, unpack: true }])
    expect([localFiles, losses]).toEqual([[], []])
  })
})

describe('the files of a model', () => {
  it.each<[string, Mapping, readonly string[]]>([
    ['its own', { parameters: { model: 'm.gguf' } }, ['m.gguf']],
    ['a companion', { mmproj: 'sub/mm.gguf' }, ['sub/mm.gguf']],
    ['the value of an option', { options: ['vae_path:sub/deep/vae.bin', 'x=m.gguf', 'word'] }, ['sub/deep/vae.bin', 'm.gguf']],
    ['a folder', { parameters: { model: 'sub/' } }, ['sub/mm.gguf', 'sub/deep/vae.bin']],
    ['no configuration and no template', { a: 'other.yaml', b: 'chat.tmpl' }, []],
    ['no text for people', { description: 'm.gguf', usage: 'm.gguf' }, []],
    ['none outside of the directory', { parameters: { model: '../m.gguf' } }, []],
  ])('are local files that it names: %s', (_, source, want) => expect(plan(source).localFiles).toEqual(want))

  it('have the source and the hash of their installation', () => {
    const files = [
      { filename: 'm.gguf', uri: 'https://h/m', sha256: sha },
      { filename: 'n', uri: 'https://h/n', sha256: '' },
    ]
    const { config, localFiles } = plan({ parameters: { model: 'm.gguf' } }, { files })
    expect(config['files']).toEqual([
      { uri: 'https://h/m', filename: 'm.gguf', sha256: sha },
      { uri: 'https://h/n', filename: 'n' },
    ])
    expect(localFiles).toEqual([])
  })

  it('come from the directory when their source cannot be used', () => {
    const files = [
      { filename: 'm.gguf', uri: 'x:1', sha256: '' },
      { filename: 'sub/mm.gguf', uri: 'file:///etc/passwd', sha256: '' },
    ]
    expect(plan({}, { files })).toMatchObject({ localFiles: ['m.gguf', 'sub/mm.gguf'], problems: [] })
    expect(plan({}, { files: [{ filename: 'gone', uri: 'x:1', sha256: '' }] }).problems).toEqual(['no source x:1'])
  })

  it('are a loss when they are nowhere', () =>
    expect(plan({ parameters: { model: 'gone.gguf' } }).losses).toMatchObject([{ about: 'm', key: 'parameters.model' }]))
})

describe('templates', () => {
  it.each<[string, Mapping, unknown]>([
    ['one word is the name of a file', { template: { chat: 'chatml' } }, { chat: 'TEMPLATE' }],
    ['a text is itself', { template: { chat: '{{.Input}}' } }, { chat: '{{.Input}}' }],
    ['a word without a file is itself', { template: { chat: 'alpaca' } }, { chat: 'alpaca' }],
    ['a file beside the model', { parameters: { model: 'm.gguf' } }, { chat: 'BESIDE', completion: 'BESIDE' }],
    ['none', {}, undefined],
  ])('%s', (_, source, want) => expect(plan(source).config['template']).toEqual(want))
})

describe('a plan', () => {
  it('fills in what the server set for all models', () => {
    expect(plan({}, { defaults: { threads: 4 } }).config['threads']).toBe(4)
    expect(plan({ threads: 2 }, { defaults: { threads: 4 } }).config['threads']).toBe(2)
  })

  it('has the rule of scheduling over its own', () => {
    const rule = { from: 'r', rule: { model_name: 'm', max_replicas: 3, balance_abs_threshold: 2 } }
    const { config, losses } = plan({ scheduling: { min_replicas: 1 } }, { rule })
    expect(config['scheduling']).toEqual({ min_replicas: 1, max_replicas: 3 })
    expect(losses).toMatchObject([{ about: 'm', key: 'scheduling.balance_abs_threshold' }])
  })

  it('is refused by a refused key, and names keys without effect', () => {
    expect(plan({ bad: 1, idle: 1 })).toMatchObject({
      problems: ['bad: not here'],
      losses: [{ about: 'm', key: 'idle', message: 'not needed' }],
    })
  })

  it('never throws, whatever a file says', () => {
    const real: Convert = { applySnapshots, archiveKind, convertFileUri, convertModel, findArtifacts, snapshotFiles }
    const keys = [...new Set(localAiModelKeys.map(({ key }) => key.split('.')[0] ?? '')), 'files', 'scheduling']
    const files = fc.array(fc.record({ filename: fc.string({ minLength: 1 }), uri: fc.string(), sha256: fc.string() }), { maxLength: 3 })
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...keys), fc.jsonValue({ maxDepth: 3 })), files, (source, recorded) => {
        const { config, problems } = plan(source, { files: recorded, by: real })
        expect(problems.every((problem) => problem.length > 0)).toBe(true)
        checkConfig(config)
      }),
      { numRuns: 500 },
    )
  })

  it('is checked as a controller would', () => {
    expect(checkConfig({ name: 'm', backend: 'b' })).toMatchObject({ config: { name: 'm', files: [], scheduling: {} } })
    expect(checkConfig({ name: 'm', backend: 'b', context_size: 'x' })).toEqual({ problem: expect.stringMatching(/^context_size: /) })
    expect(checkConfig({ name: 'm', backend: 'b', unknown: 1 })).toEqual({ problem: expect.stringContaining('unknown') })
  })
})
