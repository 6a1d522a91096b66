import { describe, expect, it } from 'vitest'
import { progressBar } from './segments.ts'

describe('progressBar', () => {
  it.each([
    [0, '──────────'],
    [4.9, '──────────'],
    [5, '╸─────────'],
    [10, '━─────────'],
    [55, '━━━━━╸────'],
    [99.9, '━━━━━━━━━╸'],
    [100, '━━━━━━━━━━'],
    [-5, '──────────'],
    [500, '━━━━━━━━━━'],
    [NaN, '──────────'],
  ])('shows %d %% as %s', (percentage, want) => {
    const { done, left } = progressBar(percentage, 10)
    expect(done + left).toBe(want)
  })
})
