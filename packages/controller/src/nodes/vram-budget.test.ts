import { Resources } from '@muster/protocol'
import { expect, it } from 'vitest'
import { applyVramBudget } from './view.ts'

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
