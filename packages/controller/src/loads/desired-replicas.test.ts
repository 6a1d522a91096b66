import type { Scheduling } from '@muster/protocol'
import { expect, it } from 'vitest'
import { desiredReplicas, replicasToLoad, type Demand } from './replica-set.pure.ts'

it.each<[string, Scheduling, Partial<Demand>, number]>([
  ['none when nobody asks', {}, {}, 0],
  ['one when somebody asks', {}, { requestedReplicas: 1 }, 1],
  ['one at most unless told', {}, { requestedReplicas: 5 }, 1],
  ['its minimum when nobody asks', { min_replicas: 2 }, {}, 2],
  ['its minimum when less is asked', { min_replicas: 2 }, { requestedReplicas: 1 }, 2],
  ['what is asked between minimum and maximum', { min_replicas: 1, max_replicas: 4 }, { requestedReplicas: 3 }, 3],
  ['its maximum when more is asked', { min_replicas: 1, max_replicas: 4 }, { requestedReplicas: 9 }, 4],
  ['all that is asked where there is no limit', { max_replicas: 0 }, { requestedReplicas: 9 }, 9],
  ['one for every node that fits', { replicas: 'all' }, { requestedReplicas: 1 }, 7],
  ['none while it is held, whatever its minimum', { min_replicas: 2 }, { requestedReplicas: 2, isUnloaded: true }, 0],
  ['none while it is disabled', { min_replicas: 2, disabled: true }, { requestedReplicas: 2 }, 0],
  ['none while it is held, whatever fits', { replicas: 'all' }, { isUnloaded: true }, 0],
])('%s', (_, scheduling, demand, want) => {
  expect(desiredReplicas({ scheduling, requestedReplicas: 0, isUnloaded: false, ...demand }, 7)).toBe(want)
})

it('one where no node fits: its load shows the reason, and a replica on a draining node keeps serving', () => {
  expect(desiredReplicas({ scheduling: { replicas: 'all' }, requestedReplicas: 0, isUnloaded: false }, 0)).toBe(1)
})

it.each<[string, Scheduling, number, number]>([
  ['one', {}, 7, 1],
  ['its minimum', { min_replicas: 3 }, 7, 3],
  ['one for every node that fits', { replicas: 'all' }, 7, 7],
  ['one where no node fits', { replicas: 'all' }, 0, 1],
])('load requests %s', (_, scheduling, matching, want) => expect(replicasToLoad(scheduling, matching)).toBe(want))
