import { BackendName, Digest, NodeId } from '@muster/protocol'
import { expect, it } from 'vitest'
import { nodeRecord } from '../../test/node-record.ts'
import { nothingToFetch } from '../store/intent-rows.ts'
import { createSubmissions, type SubmitDeps } from './submit.ts'

const backend = BackendName.parse('llama')
const digestOf = (digit: string): Digest => Digest.parse(`sha256:${digit.repeat(64)}`)
const has = (digit: string) => ({ inventory: [{ name: 'llama', digest: digestOf(digit) }] })
const fleet = [
  nodeRecord('healthy', has('1')),
  nodeRecord('current', has('2')),
  nodeRecord('offline', { ...has('1'), liveness: 'left' }),
  nodeRecord('mute', { ...has('1'), answering: 'no' }),
  nodeRecord('draining', { ...has('1'), draining: true }),
  nodeRecord('installing'),
  nodeRecord('unlisted'),
  nodeRecord('without', { inventory: [{ name: 'whisper', digest: digestOf('1') }] }),
  nodeRecord('offline-without', { liveness: 'left' }),
  nodeRecord('pending', { ...has('1'), approvedAt: null }),
  nodeRecord('agent', { ...has('1'), nodeType: 'agent' }),
]
const openPlan = { ...nothingToFetch, uri: 'oci://h/open:1' }

function submissions(over: Partial<SubmitDeps> = {}) {
  const asked: { id: string; openPlan: unknown }[] = []
  const deps = {
    nodes: { list: async () => fleet },
    intents: {
      listedName: async (name: BackendName) => name,
      findByBackend: async () => ({
        now: 0,
        rows: [
          { intent: { kind: 'install', nodeId: NodeId.parse('installing') }, plan: openPlan },
          { intent: { kind: 'delete', nodeId: NodeId.parse('without') }, plan: nothingToFetch },
        ],
      }),
      installedUnlisted: async () => new Set(['unlisted']),
    },
    planUpgrade: async (_: unknown, targets: readonly { node: (typeof fleet)[number]; openPlan: unknown }[]) => {
      asked.push(...targets.map((target) => ({ id: target.node.id as string, openPlan: target.openPlan })))
      const plan = { ...nothingToFetch, uri: 'oci://h/llama:2', digest: digestOf('2') }
      return targets.map(({ node }) => ({ node, outcome: 'planned', plan }))
    },
    ...over,
  } as unknown as SubmitDeps
  return { asked, ...createSubmissions(deps) }
}
const by = { requestedBy: 'test', signal: AbortSignal.timeout(60_000) }

it('S3.14 an upgrade reaches every node that has the backend, however it is, and every open install; and no other node', async () => {
  const { upgrade, asked } = submissions()
  const { nodes } = await upgrade(backend, { strategy: 'rolling' }, by)
  const reached = ['healthy', 'current', 'offline', 'mute', 'draining', 'installing', 'unlisted']
  expect(nodes.map(({ nodeId }) => nodeId)).toEqual(reached)
  expect(asked).toEqual(reached.map((id) => ({ id, openPlan: id === 'installing' ? openPlan : null })))
  expect(nodes.filter((node) => 'isCurrent' in node && node.isCurrent).map(({ nodeId }) => nodeId)).toEqual(['current'])
})

it('S3.14 an upgrade of a backend that no chosen node has is refused', async () => {
  const request = { strategy: 'rolling', nodes: [NodeId.parse('without'), NodeId.parse('offline-without')] } as const
  await expect(submissions().upgrade(backend, { ...request, nodes: [...request.nodes] }, by)).rejects.toMatchObject({
    code: 'not_installed',
  })
})

it.each<['refuse' | 'warn', string | undefined]>([
  ['refuse', undefined],
  ['warn', 'the disk looks too small: llama needs 2 GB, and 1 GB are free'],
])('with --disk-check %s the plan of a node whose disk looks too small has the warning %s', async (diskCheck, warning) => {
  const full = nodeRecord('full', { ...has('1'), resources: { available_disk: 1e9 } })
  const plan = { ...nothingToFetch, uri: 'oci://h/llama:2', digest: digestOf('2'), sizeBytes: 2e9 }
  const { upgrade } = submissions({
    nodes: { list: async () => [full] },
    planUpgrade: async () => [{ node: full, outcome: 'planned', plan }],
    diskCheck: () => diskCheck,
  })
  const { nodes } = await upgrade(backend, { strategy: 'rolling' }, by)
  expect(nodes).toMatchObject([{ nodeId: 'full', isCurrent: false }])
  expect(nodes.map((node) => ('plan' in node ? node.plan.warning : 'skipped'))).toEqual([warning])
})
