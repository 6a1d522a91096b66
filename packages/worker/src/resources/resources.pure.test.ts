import { describe, expect, it } from 'vitest'
import { Resources } from '@muster/protocol'
import type { Gpu } from './gpu-tools.pure.ts'
import { applyLimits, noLimits, smallestCardOf, smallestUsefulBytes, summarizeGpus } from './resources.pure.ts'

const of = (fields: object) => Resources.parse(fields)
const limits = { ...noLimits, maxReplicas: 2, maxMemoryBytes: 100 }

describe('limits of the operator', () => {
  it.each([
    ['lower an amount', { total_ram: 500, available_ram: 300 }, { total_ram: 100, available_ram: 100 }],
    ['never exceed the free amount', { total_ram: 500, available_ram: 30 }, { total_ram: 100, available_ram: 30 }],
    ['never raise an amount', { total_ram: 50, available_ram: 30 }, { total_ram: 50, available_ram: 30 }],
    ['F16 leave unknown amounts unknown', {}, { total_ram: null, available_ram: null, total_vram: null }],
    ['do not apply to a GPU with memory of its own', { total_ram: 500, total_vram: 400 }, { total_ram: 100, total_vram: 400 }],
    [
      'apply to a GPU that shares the memory of the machine',
      { total_ram: 500, total_vram: 500, available_vram: 200, unified_memory: true },
      { total_ram: 100, total_vram: 100, available_vram: 100 },
    ],
  ])('%s', (_, had, has) => {
    expect(applyLimits(of(had), limits)).toMatchObject({ ...has, max_replicas: 2 })
  })

  it('report a limit per model and a budget, and leave the GPU memory as it was read', () => {
    const limited = applyLimits(of({ total_vram: 400 }), { ...noLimits, maxReplicasPerModel: 1, vramBudget: '80%' })
    expect(limited).toMatchObject({ total_vram: 400, max_replicas_per_model: 1, vram_budget: '80%' })
  })

  it('change nothing when there are none', () => {
    const all = of({ total_ram: 500, available_ram: 300, total_vram: 7 })
    expect(applyLimits(all, noLimits)).toEqual(all)
  })
})

const GiB = 2 ** 30
const gpu = (over: Partial<Gpu>): Gpu => ({
  vendor: 'nvidia',
  name: '',
  totalBytes: 24 * GiB,
  freeBytes: 20 * GiB,
  unified: false,
  ...over,
})
const memory = { totalBytes: 64 * GiB, availableBytes: 60 * GiB }
const summary = (vendor: string | null, total: number | null, available: number | null, unified = false) => ({
  vendor,
  totalBytes: total === null ? null : total * GiB,
  availableBytes: available === null ? null : available * GiB,
  unified,
})

it.each<[string, Gpu[], ReturnType<typeof summary>]>([
  ['no GPU: unknown, not zero', [], summary(null, null, null)],
  ['one', [gpu({})], summary('nvidia', 24, 20)],
  ['several of a kind: their sum', [gpu({}), gpu({ totalBytes: 8 * GiB, freeBytes: 8 * GiB })], summary('nvidia', 32, 28)],
  [
    'two vendors: only the one whose builds are installed',
    [gpu({ vendor: 'amd' }), gpu({ totalBytes: 8 * GiB, freeBytes: 8 * GiB })],
    summary('nvidia', 8, 8),
  ],
  [
    'a processor’s own graphics beside a real card',
    [gpu({ vendor: 'amd', totalBytes: 16 * GiB }), gpu({ vendor: 'amd', totalBytes: GiB / 2 })],
    summary('amd', 16, 20),
  ],
  ['only a processor’s own graphics: none', [gpu({ vendor: 'amd', totalBytes: GiB / 2 })], summary(null, null, null)],
  ['F16 one of two unknown: what is known', [gpu({}), gpu({ totalBytes: null, freeBytes: null })], summary('nvidia', 24, 20)],
  ['F16 all unknown: unknown', [gpu({ totalBytes: null, freeBytes: null })], summary('nvidia', null, null)],
  ['shared memory repeats the machine’s', [gpu({ totalBytes: null, freeBytes: null, unified: true })], summary('nvidia', 64, 60, true)],
  [
    'a card beside a chip with shared memory: the card',
    [gpu({ totalBytes: null, freeBytes: null, unified: true }), gpu({})],
    summary('nvidia', 24, 20),
  ],
])('%s', (_, gpus, want) => {
  expect(summarizeGpus(gpus, memory, smallestUsefulBytes)).toMatchObject(want)
})

it('counts small cards when the operator configured the capability', () => {
  expect(summarizeGpus([gpu({ totalBytes: 2 * GiB, freeBytes: GiB })], memory, 0)).toMatchObject(summary('nvidia', 2, 1))
})

describe('the smallest card', () => {
  it.each<[string, readonly Gpu[], number | null]>([
    ['is none without cards', [], null],
    [
      'is the smallest of the vendor that counts',
      [gpu({}), gpu({ totalBytes: 8 * GiB }), gpu({ vendor: 'amd', totalBytes: 6 * GiB })],
      8 * GiB,
    ],
    ['is not one that is too small to count', [gpu({}), gpu({ totalBytes: 2 * GiB })], 24 * GiB],
    ['is unknown without a figure', [gpu({ totalBytes: null })], null],
  ])('%s', (_, gpus, want) => expect(smallestCardOf(gpus, smallestUsefulBytes)).toBe(want))
})
