import { Resources } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { applyLimits, noLimits } from './apply-limits.ts'

const of = (fields: object) => Resources.parse(fields)
const limits = { maxReplicas: 2, maxMemoryBytes: 100 }

describe('what replicas may have', () => {
  it.each([
    ['is lowered', { total_ram: 500, available_ram: 300 }, { total_ram: 100, available_ram: 100 }],
    ['is never more than is free', { total_ram: 500, available_ram: 30 }, { total_ram: 100, available_ram: 30 }],
    ['is never raised', { total_ram: 50, available_ram: 30 }, { total_ram: 50, available_ram: 30 }],
    ['F16 stays unknown', {}, { total_ram: null, available_ram: null, total_vram: null }],
    ['leaves a GPU of its own alone', { total_ram: 500, total_vram: 400 }, { total_ram: 100, total_vram: 400 }],
    [
      'is the same for a GPU that works in the same memory',
      { total_ram: 500, total_vram: 500, available_vram: 200, unified_memory: true },
      { total_ram: 100, total_vram: 100, available_vram: 100 },
    ],
  ])('%s', (_, had, has) => {
    expect(applyLimits(of(had), limits)).toMatchObject({ ...has, max_replicas: 2 })
  })

  it('is all there is without limits', () => {
    const all = of({ total_ram: 500, available_ram: 300, total_vram: 7 })
    expect(applyLimits(all, noLimits)).toEqual(all)
  })
})
