import { BackendName, Digest, OperationId } from '@muster/protocol'
import { expect, it } from 'vitest'
import { type NodeFacts, nodeRecord } from '../../test/node-record.ts'
import { nothingToFetch, type Plan } from '../store/intent-rows.ts'
import type { Submission } from '../store/submissions.ts'
import { previewOf } from './dry-run.ts'

const now = '2026-01-01T00:00:00.000Z'
const gb = 1_000_000_000
const digest = Digest.parse(`sha256:${'ab'.repeat(32)}`)

function previewOn(facts: NodeFacts, plan: Partial<Plan> = {}, kind: Submission['kind'] = 'backend.install') {
  const node = nodeRecord('n', facts)
  const isCurrent = kind === 'backend.upgrade' && node.inventory.some((each) => each.digest === digest)
  const planned = { nodeId: node.id, nodeName: node.name, plan: { ...nothingToFetch, sizeBytes: 4 * gb, digest, ...plan }, isCurrent }
  const about = { id: OperationId.parse('op-1'), backend: BackendName.parse('llama'), requestedBy: 'admin', options: {} }
  return previewOf({ ...about, kind, nodes: [planned] }, { nodes: [node], using: new Set(), now }).nodes[0]
}
const small = { resources: { available_disk: gb } }
const tooSmall = 'the disk looks too small: llama needs 4 GB, and 1 GB are free'
const has = (of: string) => ({ ...small, inventory: [{ name: 'llama', digest: of }] })

it.each<[string, ReturnType<typeof previewOn>, string]>([
  ['a disk that looks too small', previewOn(small), tooSmall],
  ['also of an absent node', previewOn({ ...small, liveness: 'silent' }), `node unhealthy, will retry when healthy; ${tooSmall}`],
  ['also for an exact version', previewOn(has('sha256:0'), { exact: true }), tooSmall],
  ['also for an upgrade', previewOn(has('sha256:0'), {}, 'backend.upgrade'), tooSmall],
  [
    'a build that is current, also on a drained node',
    previewOn({ ...has(digest), draining: true }, {}, 'backend.upgrade'),
    'already up to date',
  ],
  ['not for a backend that is there', previewOn(has('sha256:0')), ''],
  ['not for a backend that is up to date', previewOn(has(digest), {}, 'backend.upgrade'), 'already up to date'],
  ['not where there is room', previewOn({ resources: { available_disk: 4 * gb } }), ''],
  ['not where the free space is unknown', previewOn({}), ''],
  ['not for a source of unknown size', previewOn(small, { sizeBytes: null }), ''],
])('E4 a dry run names %s, and the node is queued', (_, node, message) => {
  expect(node).toMatchObject({ status: 'queued', message })
})
