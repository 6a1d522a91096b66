import { OperationNode, type OperationView, type Strategy } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import {
  buttonText,
  previewOf,
  previewSentence,
  servingSentence,
  type Preview,
  type PreviewFacts,
  type ChangeKind,
} from './preview.pure.ts'

const node = (name: string, given: Partial<OperationNode> = {}): OperationNode =>
  OperationNode.parse({
    ...{ node_id: `n-${name}`, node_name: name, status: 'queued', phase: null, message: '', file_name: '', current: 0, total: 0 },
    ...{ percentage: 0, attempts: 0, next_retry_at: null, dead: false, ring: null, error: null, error_code: null },
    ...given,
  })
const facts = (given: { statuses?: Record<string, string>; installed?: Record<string, string> } = {}): PreviewFacts => ({
  statuses: new Map(Object.entries(given.statuses ?? {}).map(([name, status]) => [`n-${name}`, status])),
  installed: new Map(Object.entries(given.installed ?? {}).map(([name, version]) => [`n-${name}`, { version, digest: '' }])),
})
const lines = (preview: Preview): string[] =>
  Object.entries(preview).flatMap(([outcome, nodes]) => nodes.map(({ name, note }) => `${outcome} ${name} ${note}`.trim()))
const planned = (counts: Partial<Record<keyof Preview, number>>, bytes = 0): Preview => {
  const some = (outcome: keyof Preview) =>
    Array.from({ length: counts[outcome] ?? 0 }, (_, index) => ({
      id: `n-${outcome}${index}`,
      name: `${outcome}${index}`,
      note: '',
      bytes,
    }))
  return { now: some('now'), unchanged: some('unchanged'), later: some('later'), skipped: some('skipped') }
}

describe('a dryRun run', () => {
  it.each<[string, Pick<OperationView, 'kind' | 'nodes'>, PreviewFacts, string[]]>([
    ['installs on nodes without the backend', { kind: 'backend.install', nodes: [node('a'), node('b')] }, facts(), ['now a', 'now b']],
    [
      'leaves nodes that have it unchanged',
      { kind: 'backend.install', nodes: [node('a'), node('b')] },
      facts({ installed: { b: '1.2' } }),
      ['now a', 'unchanged b has 1.2'],
    ],
    [
      'says why a node is skipped',
      { kind: 'backend.install', nodes: [node('a', { status: 'skipped', message: 'no image for linux/arm64' })] },
      facts(),
      ['skipped a no image for linux/arm64'],
    ],
    [
      'waits for nodes that are not healthy',
      { kind: 'backend.install', nodes: [node('a'), node('b'), node('c')] },
      facts({ statuses: { a: 'offline', b: 'unhealthy', c: 'draining' }, installed: { a: '1' } }),
      ['later a offline; starts when healthy', 'later b unhealthy; starts when healthy', 'later c draining; starts when resumed'],
    ],
    [
      'compares a node that is drained, or away, before it offers an upgrade there',
      { kind: 'backend.upgrade', nodes: [node('a', { up_to_date: true }), node('b', { up_to_date: true }), node('c')] },
      facts({ statuses: { a: 'draining', b: 'offline', c: 'draining' }, installed: { a: '1.2', b: '1.2', c: '1.1' } }),
      ['unchanged a has 1.2', 'unchanged b has 1.2', 'later c draining; starts when resumed'],
    ],
    [
      'leaves a drained node that has the backend unchanged',
      { kind: 'backend.install', nodes: [node('a'), node('b')] },
      facts({ statuses: { a: 'draining', b: 'draining' }, installed: { a: '1.2' } }),
      ['unchanged a has 1.2', 'later b draining; starts when resumed'],
    ],
    [
      'upgrades in rings',
      { kind: 'backend.upgrade', nodes: [node('a', { ring: 1 }), node('b', { ring: 2, message: 'waiting for ring 2' }), node('c')] },
      facts({ installed: { a: '1.2', b: '1.2', c: '1.1' } }),
      ['now a has 1.2, canary', 'now b has 1.2, ring 2', 'now c has 1.1'],
    ],
    [
      'leaves an up-to-date node unchanged',
      { kind: 'backend.upgrade', nodes: [node('a', { message: 'already up to date', up_to_date: true })] },
      facts({ installed: { a: '1.3' } }),
      ['unchanged a has 1.3'],
    ],
    [
      'deletes now and later',
      { kind: 'backend.delete', nodes: [node('a'), node('b')] },
      facts({ statuses: { b: 'offline' }, installed: { a: '1.2' } }),
      ['now a has 1.2', 'later b offline; starts when healthy'],
    ],
  ])('%s', (_, operation, given, want) => expect(lines(previewOf(operation, given))).toEqual(want))

  it('counts no bytes for unchanged nodes', () => {
    const { now, unchanged } = previewOf(
      { kind: 'backend.install', nodes: [node('a', { total: 5 }), node('b', { total: 5 })] },
      facts({ installed: { b: '1' } }),
    )
    expect([now[0]?.bytes, unchanged[0]?.bytes]).toEqual([5, 0])
  })
})

describe('the button', () => {
  it.each<[string, ChangeKind, Preview | null, string | null]>([
    ['counts the nodes', 'backend.install', planned({ now: 2, later: 1, unchanged: 4, skipped: 1 }), 'Install llama on 3 nodes'],
    ['counts one node', 'backend.upgrade', planned({ now: 1 }), 'Upgrade llama on 1 node'],
    ['deletes from nodes', 'backend.delete', planned({ now: 2 }), 'Delete llama from 2 nodes'],
    ['verifies unchanged nodes', 'backend.upgrade', planned({ unchanged: 2 }), 'Verify llama on 2 nodes'],
    ['has nothing to do', 'backend.install', planned({ skipped: 2 }), null],
    ['has no count before the dry run', 'backend.install', null, 'Install llama'],
  ])('%s', (_, kind, preview, want) => expect(buttonText(kind, 'llama', preview)).toBe(want))
})

describe('the sentence', () => {
  it.each<[ChangeKind, Preview, string]>([
    ['backend.install', planned({ now: 2 }), 'Installs on 2 nodes now.'],
    ['backend.install', planned({ now: 2 }, 1_500_000), 'Installs on 2 nodes now. Downloads at most 3 MB.'],
    [
      'backend.install',
      planned({ now: 1, later: 1, unchanged: 1, skipped: 1 }),
      'Installs on 1 node now and 1 node later. 1 node already has it. 1 node skipped.',
    ],
    ['backend.upgrade', planned({ now: 3, unchanged: 2 }), 'Upgrades 3 nodes now. 2 nodes are up to date.'],
    ['backend.upgrade', planned({ unchanged: 2 }), '2 nodes are up to date.'],
    ['backend.delete', planned({ later: 2 }), 'Deletes from 2 nodes later.'],
    ['backend.install', planned({ skipped: 2 }), 'Nothing to do: no compatible nodes.'],
  ])('%s %#', (kind, preview, want) => expect(previewSentence(kind, preview)).toBe(want))
})

describe('a running model', () => {
  const replicas = [
    { model: 'tiny', nodeId: 'n-now0', nodeName: 'gpu-1' },
    { model: 'tiny', nodeId: 'n-now1', nodeName: 'gpu-2' },
  ]
  it.each<[string, { kind: ChangeKind; strategy?: Strategy }, typeof replicas, string]>([
    ['is not affected by an install', { kind: 'backend.install' }, replicas, ''],
    [
      'keeps serving during a rolling upgrade',
      { kind: 'backend.upgrade', strategy: 'rolling' },
      replicas,
      'tiny (2 replicas on gpu-1 and gpu-2) keeps serving: the new build starts next to the old one and takes over when ready.',
    ],
    [
      'stops during a recreate',
      { kind: 'backend.upgrade', strategy: 'recreate' },
      [...replicas, { model: 'big', nodeId: 'n-now0', nodeName: 'gpu-1' }],
      'big and tiny (3 replicas on gpu-1 and gpu-2) stop serving until the next request loads them again.',
    ],
    [
      'stops with its backend',
      { kind: 'backend.delete' },
      replicas.slice(0, 1),
      'tiny (1 replica on gpu-1) stops after finishing current requests.',
    ],
    ['is not affected by unchanged nodes', { kind: 'backend.upgrade' }, [], ''],
    [
      'on another node is not affected',
      { kind: 'backend.delete' },
      [{ model: 'tiny', nodeId: 'n-x', nodeName: 'x' }],
      'No running models are affected.',
    ],
  ])('%s', (_, change, running, want) =>
    expect(servingSentence(change, planned(running.length === 0 ? { unchanged: 2 } : { now: 2 }), running)).toBe(want),
  )
})
