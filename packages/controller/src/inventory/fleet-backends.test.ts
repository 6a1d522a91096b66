import fc from 'fast-check'
import { BackendName } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { nodeRecord, type NodeFacts } from '../../test/node-record.ts'
import type { AvailableBackend } from '../store/galleries.ts'
import { installedOf, mergeInventories, upgradeOf } from './fleet-backends.ts'

const llama = BackendName.parse('llama')
const has = (id: string, entry: object, facts: NodeFacts = {}) => nodeRecord(id, { ...facts, inventory: [{ name: 'llama', ...entry }] })
const offer = (digest: string, over: Partial<AvailableBackend> = {}): AvailableBackend => ({
  ...{ backend: 'llama', concrete: 'llama', platform: 'linux/amd64 default', uri: 'r/llama:1', digest, version: '' },
  ...over,
})
const upgradeIn = (nodes: Parameters<typeof installedOf>[0], available: readonly AvailableBackend[] = []) => {
  const [first, ...others] = installedOf(nodes, available).get(llama) ?? []
  if (first === undefined) throw new Error('nobody has it')
  const { hasUpgrade, view } = upgradeOf([first, ...others])
  return { hasUpgrade, drift: view.node_drift.map(({ node_id }) => node_id), view }
}

describe('S0.28 an upgrade is on offer', () => {
  it.each<[string, object, Partial<AvailableBackend>, boolean]>([
    ['when digests differ', { digest: 'd1', version: '1' }, { digest: 'd2', version: '1' }, true],
    ['not when they are the same, whatever the versions say', { digest: 'd1', version: '1' }, { digest: 'd1', version: '2' }, false],
    ['when one has no digest and versions differ', { version: '1' }, { digest: 'd2', version: '2' }, true],
    ['not when one has no digest and versions are the same', { version: '2' }, { digest: 'd2', version: '2' }, false],
    ['not when nothing can be compared', {}, { digest: 'd2', version: '' }, false],
    ['not when it is for another kind of node', { digest: 'd1' }, { digest: 'd2', platform: 'linux/arm64 default' }, false],
    ['not when it is for another capability', { digest: 'd1' }, { digest: 'd2', platform: 'linux/amd64 nvidia' }, false],
    ['when the uri it came from means something else', { digest: 'd1', uri: 'r/x:1' }, { digest: 'd2', concrete: 'r/x:1' }, true],
    ['not when another uri does', { digest: 'd1', uri: 'r/y:1' }, { digest: 'd2', concrete: 'r/x:1' }, false],
  ])('%s', (_, entry, available, expected) => {
    expect(upgradeIn([has('a', entry)], [offer('', available)]).hasUpgrade).toBe(expected)
  })

  it('is shown for the first node that has one', () => {
    const nodes = [has('a', { digest: 'd2', version: '2' }), has('b', { digest: 'd1', version: '1' })]
    expect(upgradeIn(nodes, [offer('d2', { version: '2' })]).view).toMatchObject({
      installed_version: '1',
      installed_digest: 'd1',
      available_version: '2',
      available_digest: 'd2',
    })
  })
})

describe('S0.28 nodes drift', () => {
  const at = (day: number): string => `2026-01-0${day}T00:00:00.000Z`
  const arm: NodeFacts = { arch: 'arm64' }
  const gpu: NodeFacts = { capability: 'nvidia-cuda-12' }
  it.each<[string, Parameters<typeof installedOf>[0], readonly AvailableBackend[], readonly string[]]>([
    ['not when all have the same', [has('a', { digest: 'd1' }), has('b', { digest: 'd1' })], [], []],
    ['when they differ from most', [has('a', { digest: 'd2' }), has('b', { digest: 'd1' }), has('c', { digest: 'd1' })], [], ['a']],
    [
      'from the one on offer in a tie',
      [has('a', { digest: 'd2', installed_at: at(1) }), has('b', { digest: 'd1', installed_at: at(2) })],
      [offer('d2')],
      ['b'],
    ],
    [
      'from the newest in a tie with nothing on offer',
      [has('a', { digest: 'd2', installed_at: at(1) }), has('b', { digest: 'd1', installed_at: at(2) })],
      [],
      ['a'],
    ],
    ['not from another platform', [has('a', { digest: 'd1' }), has('b', { digest: 'd2' }, arm)], [], []],
    [
      'not from another capability of a meta backend',
      [has('a', { digest: 'd1', is_meta: true }), has('b', { digest: 'd2', is_meta: true }, gpu)],
      [],
      [],
    ],
    [
      'by capability of a meta backend that has one build for both',
      [has('a', { digest: 'd1', is_meta: true }), has('b', { digest: 'd2', is_meta: true }, gpu)],
      [offer('d1', { concrete: 'cpu-llama' }), offer('d1', { concrete: 'cpu-llama', platform: 'linux/amd64 nvidia-cuda-12' })],
      ['b'],
    ],
    [
      'by version where a digest is missing',
      [has('a', { version: '1' }), has('b', { version: '2', digest: 'd2' }), has('c', { version: '2', digest: 'd2' })],
      [],
      ['a'],
    ],
    ['not when they do not say what they have', [has('a', {}), has('b', { digest: 'd2', version: '2' })], [], []],
  ])('%s', (_, nodes, available, drift) => {
    expect(upgradeIn(nodes, available).drift).toEqual(drift)
  })

  it.each<[string, readonly AvailableBackend[]]>([
    ['with nothing on offer', []],
    ['with an upgrade for all', [offer('d3')]],
  ])('from the installed build, which is another one than theirs: %s', (_, available) => {
    const nodes = [has('a', { digest: 'd2' }), has('b', { digest: 'd1' }), has('c', { digest: 'd1' })]
    const { view } = upgradeIn(nodes, available)
    expect([view.installed_digest, view.node_drift.map(({ digest }) => digest)]).toEqual(['d1', ['d2']])
  })
})

const anyNode = fc
  .record({
    arch: fc.constantFrom('x64', 'arm64'),
    capability: fc.constantFrom('default', 'nvidia-cuda-12'),
    digest: fc.constantFrom('', 'd1', 'd2', 'd3'),
    version: fc.constantFrom('', '1', '2'),
    is_meta: fc.boolean(),
    name: fc.constantFrom('a', 'b'),
    nodeType: fc.constantFrom('backend' as const, 'agent' as const),
    liveness: fc.constantFrom('present' as const, 'left' as const, 'silent' as const),
  })
  .map(({ digest, version, is_meta, ...facts }) => ({ facts, entry: { digest, version, is_meta } }))
const fleet = fc.array(anyNode, { maxLength: 8 }).map((all) => all.map(({ facts, entry }, i) => has(`n-${i}`, entry, facts)))
const offers = fc.array(
  fc.record({
    concrete: fc.constantFrom('llama', 'cpu-llama', 'r/llama:1'),
    platform: fc.constantFrom('linux/amd64 default', 'linux/arm64 default', 'linux/amd64 nvidia-cuda-12'),
    digest: fc.constantFrom('d1', 'd2'),
  }),
  { maxLength: 4 },
)

describe('S0.21 S0.22 the backends of all nodes', () => {
  it('are merged by name, with the metadata of the first node by name, and the build of each node', () => {
    const nodes = [
      has('n-2', { digest: 'd2', version: '2', is_system: true, uri: 'r/2' }, { name: 'zeta' }),
      has(
        'n-1',
        { digest: 'd1', version: '1', is_meta: true, uri: 'r/1', gallery_url: 'g', installed_at: 't' },
        { name: 'alpha', liveness: 'left' },
      ),
      nodeRecord('n-3', { nodeType: 'agent', inventory: [{ name: 'llama' }] }),
      nodeRecord('n-4', { approvedAt: null, inventory: [{ name: 'llama' }] }),
      nodeRecord('n-5', { name: 'beta', inventory: [{ name: 'piper' }, { name: 'piper', version: 'again' }] }),
    ]
    expect(mergeInventories(nodes, [offer('d1')])).toEqual([
      {
        name: 'llama',
        is_system: false,
        is_meta: true,
        metadata: { name: 'llama', installed_at: 't', gallery_url: 'g', version: '1', uri: 'r/1', digest: 'd1' },
        nodes: [
          { node_id: 'n-1', node_name: 'alpha', node_status: 'offline', version: '1', digest: 'd1', uri: 'r/1', installed_at: 't' },
          { node_id: 'n-2', node_name: 'zeta', node_status: 'healthy', version: '2', digest: 'd2', uri: 'r/2', installed_at: '' },
        ],
        upgrade_available: true,
        drift: true,
      },
      expect.objectContaining({ name: 'piper', upgrade_available: false, drift: false, nodes: [expect.objectContaining({ version: '' })] }),
    ])
  })

  it('lose no node, name none twice, and never call all of a group adrift', () => {
    fc.assert(
      fc.property(fleet, offers, (nodes, some) => {
        const available = some.map((each) => offer(each.digest, each))
        const owners = nodes.filter(({ nodeType }) => nodeType === 'backend')
        const [view] = mergeInventories(nodes, available)
        expect(view?.nodes.map(({ node_id }) => node_id).toSorted() ?? []).toEqual(owners.map(({ id }) => id).toSorted())
        if (view === undefined) return
        const names = view.nodes.map(({ node_name, node_id }) => `${node_name} ${node_id}`)
        expect(names).toEqual(names.toSorted())
        const installed = installedOf(nodes, available).get(llama) ?? []
        const { drift, hasUpgrade } = upgradeIn(nodes, available)
        expect([view.drift, view.upgrade_available]).toEqual([drift.length > 0, hasUpgrade])
        for (const [, group] of Map.groupBy(installed, (each) => each.group)) {
          expect(group.some(({ node }) => !drift.includes(node.id))).toBe(true)
          if (new Set(group.map(({ entry }) => `${entry.digest} ${entry.version}`)).size === 1) {
            expect(group.filter(({ node }) => drift.includes(node.id))).toEqual([])
          }
        }
        expect(mergeInventories(nodes.toReversed(), available)).toEqual(mergeInventories(nodes, available))
      }),
      { numRuns: 500 },
    )
  })
})
