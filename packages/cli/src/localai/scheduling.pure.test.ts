import { describe, expect, it } from 'vitest'
import { toScheduling } from './scheduling.pure.ts'
import type { Mapping } from './site.ts'

describe('a rule of LocalAI', () => {
  it.each<[string, Mapping, object]>([
    ['numbers', { min_replicas: 1, max_replicas: 3 }, { min_replicas: 1, max_replicas: 3 }],
    ['no limit', { min_replicas: 2, max_replicas: 0 }, { min_replicas: 2, max_replicas: 0 }],
    ['a minimum above the maximum', { min_replicas: 4, max_replicas: 2 }, { min_replicas: 4, max_replicas: 4 }],
    ['all nodes', { replicas: 'all', min_replicas: 1 }, { replicas: 'all' }],
    ['all nodes, as the API writes it', { spread_all: true }, { replicas: 'all' }],
    ['a selector', { node_selector: { gpu: 'a100' } }, { node_selector: { gpu: 'a100' } }],
    ['a selector, as the API writes it', { node_selector: '{"gpu":"a100"}' }, { node_selector: { gpu: 'a100' } }],
    ['an empty selector', { node_selector: '{}' }, {}],
    ['a policy', { route_policy: 'round_robin' }, { policy: 'least' }],
    ['columns of the original', { id: 7, created_at: 'x', balance_abs_threshold: 0 }, {}],
  ])('%s', (_, rule, want) => expect(toScheduling({ model_name: 'm', ...rule })).toEqual({ model: 'm', scheduling: want, losses: [] }))

  it.each<[string, Mapping, string]>([
    ['a threshold', { balance_abs_threshold: 4 }, 'balance_abs_threshold'],
    ['an unknown policy', { route_policy: 'random' }, 'route_policy'],
    ['a selector that is no mapping', { node_selector: 'gpu' }, 'node_selector'],
    ['a selector with numbers', { node_selector: { gpu: 1 } }, 'node_selector'],
    ['a number out of range', { min_replicas: -1 }, 'rule'],
  ])('loses %s', (_, rule, key) => {
    const { scheduling, losses } = toScheduling({ model_name: 'm', ...rule })
    expect(scheduling).toEqual({})
    expect(losses).toMatchObject([{ key, message: expect.stringMatching(/\w/) }])
  })
})
