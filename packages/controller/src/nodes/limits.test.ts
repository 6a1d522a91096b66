import { Resources } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { applyVramBudget, limitsInEffect } from './limits.ts'

const gpu = (total: number | null, available: number | null) => Resources.parse({ total_vram: total, available_vram: available })

it.each<[string, string | null, [number | null, number | null], [number | null, number | null]]>([
  ['nothing without a budget', null, [100, 60], [100, 60]],
  ['a percentage lowers', '80%', [100, 60], [80, 40]],
  ['a size lowers', '12GB', [16e9, 10e9], [12e9, 6e9]],
  ['a binary size lowers', '1GiB', [2 ** 31, 2 ** 31], [2 ** 30, 2 ** 30]],
  ['what is used already counts first', '50%', [100, 20], [50, 0]],
  ['a budget never raises', '200GB', [16e9, 10e9], [16e9, 10e9]],
  ['unknown memory stays unknown', '80%', [null, null], [null, null]],
  ['unknown free memory stays unknown', '80%', [100, null], [80, null]],
])('%s', (_, budget, [total, available], [wantTotal, wantAvailable]) => {
  expect(applyVramBudget(gpu(total, available), budget)).toMatchObject({ total_vram: wantTotal, available_vram: wantAvailable })
})

describe('of the limits of a worker and of an administrator', () => {
  const vram = { total_vram: 100, available_vram: 60 }

  it.each<[string, [string | undefined, string | null], { value: string; from: string } | null, number]>([
    ['none is in effect when there is none', [undefined, null], null, 100],
    ['the budget of the worker holds alone', ['50%', null], { value: '50%', from: 'worker' }, 50],
    ['the budget of the administrator holds alone', [undefined, '80%'], { value: '80%', from: 'api' }, 80],
    ['the lower budget wins: the one of the worker', ['50%', '80%'], { value: '50%', from: 'worker' }, 50],
    ['the lower budget wins: the one of the administrator', ['80%', '30B'], { value: '30B', from: 'api' }, 30],
    ['equal budgets are the one of the administrator', ['80%', '80B'], { value: '80B', from: 'api' }, 80],
  ])('%s', (_, [ofWorker, ofAdministrator], inEffect, total) => {
    const resources = Resources.parse({ ...vram, vram_budget: ofWorker })
    expect(limitsInEffect({ resources, vramBudget: ofAdministrator, maxReplicasPerModel: null }).vram_budget).toEqual(inEffect)
    expect(applyVramBudget(resources, ofAdministrator).total_vram).toBe(total)
  })

  it.each<[string, number | undefined, number | null, { value: number; from: string } | null]>([
    ['no number is in effect when there is none', undefined, null, null],
    ['the lower number wins: the one of the worker', 1, 2, { value: 1, from: 'worker' }],
    ['the lower number wins: the one of the administrator', 3, 2, { value: 2, from: 'api' }],
  ])('%s', (_, ofWorker, ofAdministrator, inEffect) => {
    const resources = Resources.parse({ max_replicas_per_model: ofWorker })
    expect(limitsInEffect({ resources, vramBudget: null, maxReplicasPerModel: ofAdministrator }).max_replicas_per_model).toEqual(inEffect)
  })

  it('an implausible report of a worker is no limit', () => {
    const resources = Resources.parse({ ...vram, max_replicas_per_model: 0, vram_budget: 'lots' })
    expect(limitsInEffect({ resources, vramBudget: null, maxReplicasPerModel: null })).toEqual({
      vram_budget: null,
      max_replicas_per_model: null,
    })
  })
})
