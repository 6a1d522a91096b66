import type { ModelView, NodeView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { fleetSentence } from './fleet-sentence.pure.ts'

const nodes = (...states: readonly string[]): NodeView[] => states.map((status) => ({ status }) as unknown as NodeView)
const models = (...replicas: readonly [number, number][]): ModelView[] =>
  replicas.map(([replicas_ready, replicas_desired]) => ({ replicas_ready, replicas_desired }) as unknown as ModelView)
const quiet = { requestsPerSecond: 0, tokensPerSecond: 0, errors: 0, overloaded: 0, clientErrors: 0 }
const busy = { requestsPerSecond: 1.5, tokensPerSecond: 140, errors: 2, overloaded: 0, clientErrors: 0 }

describe('the fleet', () => {
  it.each<[Parameters<typeof fleetSentence>, string]>([
    [[[], [], quiet], 'No nodes yet. No requests in the last minute.'],
    [[nodes('healthy'), models([0, 0]), quiet], '1 node, healthy. No models loaded. No requests in the last minute.'],
    [
      [nodes('healthy', 'healthy'), models([2, 2], [0, 1]), busy],
      '2 nodes, both healthy. 2 of 3 replicas ready. 1.5 requests/s, 140 tokens/s and 2 errors in the last minute.',
    ],
    [
      [nodes('healthy', 'healthy', 'healthy'), [], { ...busy, errors: 0, requestsPerSecond: 0.05 }],
      '3 nodes, all healthy. 0.05 requests/s, 140 tokens/s and no errors in the last minute.',
    ],
    [
      [nodes('healthy', 'offline', 'pending', 'offline'), models([1, 0]), quiet],
      '4 nodes: 1 healthy, 1 pending, 2 offline. 1 of 1 replica ready. No requests in the last minute.',
    ],
  ])('is described in one sentence %#', (given, want) => expect(fleetSentence(...given)).toBe(want))
})
