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
    ['is named by its version', { version: '1.2', digest: digest('a') }, '1.2'],
    ['without a version is named by its digest', { version: '', digest: digest('a') }, 'build aaaaaaaa'],
    ['without both is unknown', { version: '', digest: '' }, 'unknown build'],
  ])('%s', (_, given, want) => expect(buildName(given)).toBe(want))

  it('is listed once, in the order of versions', () => {
    const builds = ['1.10', '1.9', '1.10', '1.2'].map((version) => ({ version, digest: '' }))
    expect(buildNames(builds)).toBe('1.2, 1.9 and 1.10')
  })

  it('is told from another one of the same version by its digest', () => {
    const builds = ['a', 'b', 'a'].map((letter) => ({ version: '1.2', digest: digest(letter) }))
    expect(buildNames(builds)).toBe('1.2, build aaaaaaaa and 1.2, build bbbbbbbb')
  })
})

describe('an upgrade', () => {
  it.each([
    ['names both versions', upgrade(), 'llama 1.2 → 1.3'],
    ['within a version names the digests', upgrade({ available_version: '1.2' }), 'llama 1.2, build aaaaaaaa → bbbbbbbb'],
    ['to a build without version names its digest', upgrade({ available_version: '' }), 'llama 1.2 → build bbbbbbbb'],
    [
      'without newer build names the drift',
      upgrade({ available_digest: digest('a'), available_version: '1.2', node_drift: [drifted] }),
      'llama 1.2 (1 node has a different build)',
    ],
    [
      'is not invented when nothing is available',
      upgrade({ available_digest: '', available_version: '' }),
      'llama 1.2 (0 nodes have a different build)',
    ],
  ])('%s', (_, given, want) => expect(upgradeWords('llama', given)).toBe(want))

  it.each([
    ['none', {}, ''],
    ['one', { llama: upgrade() }, '1 update available: llama 1.2 → 1.3.'],
    ['several in the order of names', { whisper: upgrade(), llama: upgrade() }, '2 updates available: llama 1.2 → 1.3, whisper 1.2 → 1.3.'],
    [
      'counts the rest of many',
      Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => [name, upgrade()])),
      '6 updates available: a 1.2 → 1.3, b 1.2 → 1.3, c 1.2 → 1.3, d 1.2 → 1.3 and 2 more.',
    ],
  ])('%s', (_, given, want) => expect(upgradesSentence(given)).toBe(want))

  it('is in progress while an operation upgrades it', () => {
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
    ['is empty', [], {}, 'No backends installed.'],
    ['is up to date', [backend('llama')], {}, '1 backend on 1 node. Up to date.'],
    [
      'counts each node once',
      [backend('a'), backend('b', { 'gpu-1': 'healthy', 'gpu-2': 'healthy' })],
      {},
      '2 backends on 2 nodes. All up to date.',
    ],
    ['claims nothing before the first check', [backend('llama')], null, '1 backend on 1 node.'],
    ['has one update', [backend('a'), backend('b')], { a: upgrade() }, '2 backends on 1 node. 1 update available.'],
    ['has only updates', [backend('a'), backend('b')], { a: upgrade(), b: upgrade() }, '2 backends on 1 node. 2 updates available.'],
    [
      'names unreachable nodes',
      [backend('a', { 'gpu-1': 'offline', 'gpu-2': 'healthy' }), backend('b', { 'gpu-1': 'offline' })],
      {},
      '2 backends on 2 nodes. All up to date. gpu-1 is unreachable; shown as last seen.',
    ],
  ])('%s', (_, backends, upgrades, want) => expect(pageSentence(backends, upgrades)).toBe(want))
})
