import { describe, expect, it } from 'vitest'
import type { NodeRecord } from '../store/nodes.ts'
import { mayBeQueried } from './node-inventories.ts'

const node = (changes: Partial<NodeRecord>): NodeRecord =>
  ({
    nodeType: 'backend',
    approvedAt: 'then',
    draining: false,
    liveness: 'present',
    answering: 'yes',
    lastSeenAt: 'then',
    ...changes,
  }) as NodeRecord

describe('mayBeQueried', () => {
  it.each<[string, Partial<NodeRecord>, boolean]>([
    ['a healthy node', {}, true],
    ['a node that did not answer before', { answering: 'no' }, true],
    ['a node that has not reported since its approval', { liveness: 'new', lastSeenAt: null }, false],
    ['a pending node', { approvedAt: null }, false],
    ['a node whose worker was stopped', { liveness: 'left' }, false],
    ['a draining node', { draining: true }, false],
    ['an agent', { nodeType: 'agent' }, false],
  ])('%s: %s', (_, changes, expected) => expect(mayBeQueried(node(changes))).toBe(expected))
})
