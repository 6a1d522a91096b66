import { BackendName, ModelConfig, ModelName, type Load } from '@muster/protocol'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { WantedModel } from '../store/loads.ts'
import { compareWanted, isWanted } from './wanted.ts'

const name = ModelName.parse('tiny')
const model = (over: Partial<WantedModel> & { scheduling?: object } = {}): WantedModel => ({
  ...{ name, revision: 'rev-1', backend: BackendName.parse('llama'), askedReplicas: 0, isHeld: false, matching: 0 },
  config: ModelConfig.parse({ name, backend: 'llama', scheduling: over.scheduling ?? {} }),
  ...over,
})
const load = (slot: number, over: Partial<Load> = {}): Load =>
  ({
    ...{
      model: name,
      purpose: 'serve',
      slot,
      revision: 'rev-1',
      epoch: 1,
      attempts: 0,
      pin: null,
      needsCheck: false,
      note: '',
      lease: null,
      state: 'waiting',
      nextAt: 0,
    },
    ...over,
  }) as Load
const failed = { state: 'failed', failure: { code: 'integrity', retry: 'never', message: 'no' }, failedAt: 0, nodeId: null } as const

it.each<[string, WantedModel, Load[], { missing?: number[]; stale?: number[] }]>([
  ['nothing that nobody asks for', model(), [], {}],
  ['a slot for each replica of the minimum', model({ scheduling: { min_replicas: 2 } }), [load(0)], { missing: [1] }],
  ['a slot when a request came', model({ askedReplicas: 1 }), [], { missing: [0] }],
  ['no slot beyond those', model({ askedReplicas: 1 }), [load(0), load(1)], { stale: [1] }],
  ['none while it is held', model({ scheduling: { min_replicas: 2 }, isHeld: true }), [load(0), load(1)], { stale: [0, 1] }],
  ['another load for another revision', model({ askedReplicas: 1, revision: 'rev-2' }), [load(0)], { stale: [0] }],
  ['what failed for good, to be seen', model(), [load(0, { ...failed, nextAt: null })], {}],
  ['what failed for good no longer once it is held', model({ isHeld: true }), [load(0, { ...failed, nextAt: null })], { stale: [0] }],
  ['what failed and heals only while it is asked for', model(), [load(0, { ...failed, nextAt: 5 })], { stale: [0] }],
  ['what is staged, whatever is asked', model(), [load(0, { purpose: 'stage' })], {}],
  ['one on every node that fits', model({ scheduling: { replicas: 'all' }, matching: 3 }), [load(0)], { missing: [1, 2] }],
])('%s', (_, wanted, loads, { missing = [], stale = [] }) => {
  const difference = compareWanted([wanted], loads)
  expect(difference.missing.map(({ slot }) => slot)).toEqual(missing)
  expect(difference.stale.map(({ slot }) => slot)).toEqual(stale)
})

it('I9 doing what it says leaves nothing to do', () => {
  const arbitrary = fc.record({
    min: fc.nat(4),
    asked: fc.nat(4),
    isHeld: fc.boolean(),
    slots: fc.uniqueArray(fc.nat(6)),
    isOld: fc.boolean(),
  })
  fc.assert(
    fc.property(arbitrary, ({ min, asked, isHeld, slots, isOld }) => {
      const wanted = model({ scheduling: { min_replicas: min, max_replicas: 0 }, askedReplicas: asked, isHeld })
      const before = slots.map((slot) => load(slot, { revision: isOld ? 'rev-0' : 'rev-1' }))
      const { missing, stale } = compareWanted([wanted], before)
      const kept = before.filter((each) => !stale.includes(each) || isWanted(each, wanted)).map((each) => ({ ...each, revision: 'rev-1' }))
      const after = [...kept, ...missing.map(({ slot }) => load(slot))]
      expect(compareWanted([wanted], after)).toEqual({ missing: [], stale: [] })
    }),
  )
})
