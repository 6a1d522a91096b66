import { OperationNode, type OperationView, type Strategy } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { buttonText, previewOf, previewSentence, servingSentence, type Preview, type PreviewFacts, type WishKind } from './preview.pure.ts'

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
const told = (preview: Preview): string[] =>
  Object.entries(preview).flatMap(([fate, nodes]) => nodes.map(({ name, note }) => `${fate} ${name} ${note}`.trim()))
const planned = (counts: Partial<Record<keyof Preview, number>>, bytes = 0): Preview => {
  const some = (fate: keyof Preview) =>
    Array.from({ length: counts[fate] ?? 0 }, (_, index) => ({ id: `n-${fate}${index}`, name: `${fate}${index}`, note: '', bytes }))
  return { now: some('now'), there: some('there'), later: some('later'), skipped: some('skipped') }
}

describe('a dry run', () => {
  it.each<[string, Pick<OperationView, 'kind' | 'nodes'>, PreviewFacts, string[]]>([
    ['installs where it is not', { kind: 'backend.install', nodes: [node('a'), node('b')] }, facts(), ['now a', 'now b']],
    [
      'leaves alone what has it',
      { kind: 'backend.install', nodes: [node('a'), node('b')] },
      facts({ installed: { b: '1.2' } }),
      ['now a', 'there b has 1.2'],
    ],
    [
      'says why a node is left out',
      { kind: 'backend.install', nodes: [node('a', { status: 'skipped', message: 'no image for linux/arm64' })] },
      facts(),
      ['skipped a no image for linux/arm64'],
    ],
    [
      'waits for who is away, whatever it had',
      { kind: 'backend.install', nodes: [node('a'), node('b'), node('c')] },
      facts({ statuses: { a: 'offline', b: 'unhealthy', c: 'draining' }, installed: { a: '1' } }),
      ['later a offline: when it returns', 'later b unhealthy: when it returns', 'later c draining: when it is resumed'],
    ],
    [
      'upgrades in rings',
      { kind: 'backend.upgrade', nodes: [node('a', { ring: 1 }), node('b', { ring: 2, message: 'waiting for ring 2' }), node('c')] },
      facts({ installed: { a: '1.2', b: '1.2', c: '1.1' } }),
      ['now a has 1.2, first', 'now b has 1.2, ring 2', 'now c has 1.1'],
    ],
    [
      'does not upgrade what is current',
      { kind: 'backend.upgrade', nodes: [node('a', { message: 'already up to date' })] },
      facts({ installed: { a: '1.3' } }),
      ['there a has 1.3'],
    ],
    [
      'deletes now and later',
      { kind: 'backend.delete', nodes: [node('a'), node('b')] },
      facts({ statuses: { b: 'offline' }, installed: { a: '1.2' } }),
      ['now a has 1.2', 'later b offline: when it returns'],
    ],
  ])('%s', (_, operation, given, want) => expect(told(previewOf(operation, given))).toEqual(want))

  it('counts no bytes where nothing is fetched', () => {
    const { now, there } = previewOf(
      { kind: 'backend.install', nodes: [node('a', { total: 5 }), node('b', { total: 5 })] },
      facts({ installed: { b: '1' } }),
    )
    expect([now[0]?.bytes, there[0]?.bytes]).toEqual([5, 0])
  })
})

describe('the button', () => {
  it.each<[string, WishKind, Preview | null, string | null]>([
    ['says on how many nodes', 'backend.install', planned({ now: 2, later: 1, there: 4, skipped: 1 }), 'Install llama on 3 nodes'],
    ['says one node', 'backend.upgrade', planned({ now: 1 }), 'Upgrade llama on 1 node'],
    ['says from where', 'backend.delete', planned({ now: 2 }), 'Delete llama from 2 nodes'],
    ['looks at what is there', 'backend.upgrade', planned({ there: 2 }), 'Verify llama on 2 nodes'],
    ['has nothing to do', 'backend.install', planned({ skipped: 2 }), null],
    ['does not know yet', 'backend.install', null, 'Install llama'],
  ])('%s', (_, kind, preview, want) => expect(buttonText(kind, 'llama', preview)).toBe(want))
})

describe('the sentence', () => {
  it.each<[WishKind, Preview, string]>([
    ['backend.install', planned({ now: 2 }), '2 nodes get it now.'],
    ['backend.install', planned({ now: 2 }, 1_500_000), '2 nodes get it now. 3 MB to fetch at most.'],
    [
      'backend.install',
      planned({ now: 1, later: 1, there: 1, skipped: 1 }),
      '1 node gets it now, 1 when it is back, 1 has it already, 1 is left out.',
    ],
    ['backend.upgrade', planned({ now: 3, there: 2 }), '3 nodes are upgraded now, 2 are up to date.'],
    ['backend.upgrade', planned({ there: 2 }), '2 nodes are up to date.'],
    ['backend.delete', planned({ later: 2 }), '2 nodes lose it when they are back.'],
    ['backend.install', planned({ skipped: 2 }), 'Nothing would be done: no node is left.'],
  ])('%s %#', (kind, preview, want) => expect(previewSentence(kind, preview)).toBe(want))
})

describe('what runs on it', () => {
  const used = [
    { model: 'tiny', nodeId: 'n-now0', nodeName: 'gpu-1' },
    { model: 'tiny', nodeId: 'n-now1', nodeName: 'gpu-2' },
  ]
  it.each<[string, { kind: WishKind; strategy?: Strategy }, typeof used, string]>([
    ['is not touched by an install', { kind: 'backend.install' }, used, ''],
    [
      'goes on while it is rolled',
      { kind: 'backend.upgrade', strategy: 'rolling' },
      used,
      'tiny (2 replicas on gpu-1 and gpu-2) goes on serving: the new build is started beside the old one and takes over when it is ready.',
    ],
    [
      'stops while it is replaced',
      { kind: 'backend.upgrade', strategy: 'recreate' },
      [...used, { model: 'big', nodeId: 'n-now0', nodeName: 'gpu-1' }],
      'big and tiny (3 replicas on gpu-1 and gpu-2) stop serving there, until the next request loads them again.',
    ],
    [
      'ends with it',
      { kind: 'backend.delete' },
      used.slice(0, 1),
      'tiny (1 replica on gpu-1) stops: what is being answered is finished first.',
    ],
    ['is not touched where nothing is done', { kind: 'backend.upgrade' }, [], ''],
    ['is elsewhere', { kind: 'backend.delete' }, [{ model: 'tiny', nodeId: 'n-x', nodeName: 'x' }], 'No model runs on it there.'],
  ])('%s', (_, wish, replicas, want) =>
    expect(servingSentence(wish, planned(replicas.length === 0 ? { there: 2 } : { now: 2 }), replicas)).toBe(want),
  )
})
