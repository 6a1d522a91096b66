import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ringsOf, type RingNode } from './operation-nodes.pure.ts'

const node = (nodeName: string, fields: Partial<RingNode> = {}): RingNode => ({
  ...{ nodeId: `id-${nodeName}`, nodeName, hasReplicas: true, isReachable: true, isChanged: true },
  ...fields,
})
const away = { isReachable: false }
const show = (nodes: RingNode[], canary: number, maxParallel: number): string =>
  [...ringsOf(nodes, { canary, maxParallel })].map(([id, ring]) => `${id.slice(3)}${ring}`).join(' ')

describe('rings', () => {
  it.each<[string, RingNode[], number, number, string]>([
    ['one node is the canary', [node('a')], 1, 1, 'a1'],
    ['by name, one after the other', [node('c'), node('a'), node('b')], 1, 1, 'a1 b2 c3'],
    ['as many at once as is said', ['a', 'b', 'c', 'd', 'e'].map((n) => node(n)), 1, 2, 'a1 b2 c2 d3 e3'],
    ['several canaries', ['a', 'b', 'c'].map((n) => node(n)), 2, 5, 'a1 b1 c2'],
    ['a node without replicas is in none', [node('a'), node('b', { hasReplicas: false }), node('c')], 1, 1, 'a1 c2'],
    ['a node with that version is in none', [node('a'), node('b', { isChanged: false })], 1, 1, 'a1'],
    ['what is away comes with the last', [node('a', away), node('b'), node('c')], 1, 1, 'b1 c2 a2'],
    ['when nobody is here there are none', [node('a', away), node('b', away)], 1, 1, ''],
    ['without nodes there are none', [], 1, 1, ''],
  ])('%s', (...[, nodes, canary, maxParallel, want]) => {
    expect(show(nodes, canary, maxParallel)).toBe(want)
  })

  it('are without gaps, and hold no more nodes that are here than they may', () => {
    const nodes = fc.array(fc.record({ hasReplicas: fc.boolean(), isReachable: fc.boolean(), isChanged: fc.boolean() }), { maxLength: 30 })
    fc.assert(
      fc.property(nodes, fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 }), (fields, canary, maxParallel) => {
        const given = fields.map((each, index) => node(String(index).padStart(2, '0'), each))
        const rings = ringsOf(given, { canary, maxParallel })
        const used = [...new Set(rings.values())].toSorted((a, b) => a - b)
        expect(used).toEqual(used.map((_, index) => index + 1))
        for (const ring of used) {
          const here = given.filter((each) => each.isReachable && rings.get(each.nodeId) === ring)
          expect(here.length).toBeGreaterThan(0)
          expect(here.length).toBeLessThanOrEqual(ring === 1 ? canary : maxParallel)
        }
      }),
    )
  })
})
