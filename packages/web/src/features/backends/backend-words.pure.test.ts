import { BackendView, OperationView, type UpgradeView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { beingUpgraded, buildName, buildNames, pageSentence, upgradesSentence, upgradeWords } from './backend-words.pure.ts'

const digest = (letter: string): string => `sha256:${letter.repeat(64)}`
const upgrade = (given: Partial<UpgradeView> = {}): UpgradeView => ({
  installed_version: '1.2',
  available_version: '1.3',
  installed_digest: digest('a'),
  available_digest: digest('b'),
  node_drift: [],
  ...given,
})
const drifted = { node_id: 'n-1', node_name: 'gpu-1', version: '1.1', digest: digest('c') } as UpgradeView['node_drift'][number]
const backend = (name: string, nodes: Readonly<Record<string, string>> = { 'gpu-1': 'healthy' }): BackendView =>
  BackendView.parse({
    name,
    is_system: false,
    is_meta: false,
    metadata: { name, installed_at: '', gallery_url: '', version: '1', uri: '', digest: digest('a') },
    nodes: Object.entries(nodes).map(([node, status]) => ({
      ...{ node_id: `n-${node}`, node_name: node, node_status: status, version: '1', digest: digest('a'), uri: '', installed_at: '' },
    })),
    upgrade_available: false,
    drift: false,
  })

describe('a build', () => {
  it.each([
    ['goes by its version', { version: '1.2', digest: digest('a') }, '1.2'],
    ['without one goes by its digest', { version: '', digest: digest('a') }, 'build aaaaaaaa'],
    ['that says neither is unknown', { version: '', digest: '' }, 'an unknown build'],
  ])('%s', (_, given, want) => expect(buildName(given)).toBe(want))

  it('is named once, in the order of versions', () => {
    const builds = ['1.10', '1.9', '1.10', '1.2'].map((version) => ({ version, digest: '' }))
    expect(buildNames(builds)).toBe('1.2, 1.9 and 1.10')
  })
})

describe('an upgrade', () => {
  it.each([
    ['is from one version to another', upgrade(), 'llama 1.2 → 1.3'],
    ['within a version is told by digests', upgrade({ available_version: '1.2' }), 'llama 1.2, build aaaaaaaa → bbbbbbbb'],
    ['to what says no version is told by its digest', upgrade({ available_version: '' }), 'llama 1.2 → build bbbbbbbb'],
    [
      'that only makes nodes alike says so',
      upgrade({ available_digest: digest('a'), available_version: '1.2', node_drift: [drifted] }),
      'llama 1.2 (1 node has another build)',
    ],
    [
      'is not made up when nothing is on offer',
      upgrade({ available_digest: '', available_version: '' }),
      'llama 1.2 (0 nodes have another build)',
    ],
  ])('%s', (_, given, want) => expect(upgradeWords('llama', given)).toBe(want))

  it.each([
    ['none: nothing is said', {}, ''],
    ['one', { llama: upgrade() }, '1 backend has an update: llama 1.2 → 1.3.'],
    ['some, by name', { whisper: upgrade(), llama: upgrade() }, '2 backends have updates: llama 1.2 → 1.3, whisper 1.2 → 1.3.'],
    [
      'many are counted',
      Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => [name, upgrade()])),
      '6 backends have updates: a 1.2 → 1.3, b 1.2 → 1.3, c 1.2 → 1.3, d 1.2 → 1.3 and 2 more.',
    ],
  ])('%s', (_, given, want) => expect(upgradesSentence(given)).toBe(want))

  it('is in work while an operation about it is', () => {
    const active = [
      operation('backend.upgrade', 'llama'),
      operation('backend.upgrade', 'llama'),
      operation('backend.install', 'whisper'),
      operation('backend.upgrade', 'other'),
    ]
    expect(beingUpgraded({ llama: upgrade(), whisper: upgrade() }, active)).toEqual(['llama'])
  })
})

const operation = (kind: string, name: string): OperationView =>
  OperationView.parse({
    ...{ id: 'op-1', kind, backend: name, model: null, state: 'running', message: '', progress: 0, file_name: '' },
    ...{ current_bytes: 0, total_bytes: 0, created_at: '', finished_at: null, requested_by: '', nodes: [] },
  })

describe('the page', () => {
  it.each([
    ['is empty', [], {}, 'No backend is installed yet.'],
    ['is up to date', [backend('llama')], {}, '1 backend on 1 node. It is up to date.'],
    [
      'counts each node once',
      [backend('a'), backend('b', { 'gpu-1': 'healthy', 'gpu-2': 'healthy' })],
      {},
      '2 backends on 2 nodes. All are up to date.',
    ],
    ['does not say what nobody has looked for', [backend('llama')], null, '1 backend on 1 node.'],
    ['has one update', [backend('a'), backend('b')], { a: upgrade() }, '2 backends on 1 node. 1 has an update.'],
    ['has updates only', [backend('a'), backend('b')], { a: upgrade(), b: upgrade() }, '2 backends on 1 node. All have updates.'],
    [
      'names who is away',
      [backend('a', { 'gpu-1': 'offline', 'gpu-2': 'healthy' }), backend('b', { 'gpu-1': 'offline' })],
      {},
      '2 backends on 2 nodes. All are up to date. gpu-1 is away: shown as last seen.',
    ],
  ])('%s', (_, backends, upgrades, want) => expect(pageSentence(backends, upgrades)).toBe(want))
})
