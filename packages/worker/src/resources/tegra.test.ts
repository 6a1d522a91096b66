import { describe, expect, it } from 'vitest'
import { isTegraCompatible, parseTegraRelease } from './tegra.ts'

describe('parseTegraRelease', () => {
  it.each([
    ['# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025', 12],
    ['# R35 (release), REVISION: 4.1, GCID: 33958178', 11],
    ['# R38 (release), REVISION: 2.0', 13],
    ['# R32 (release), REVISION: 7.1', null],
    ['', null],
  ])('of %j is CUDA %s', (text, want) => {
    expect(parseTegraRelease(text)).toBe(want)
  })
})

describe('isTegraCompatible', () => {
  it.each([
    ['nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0', true],
    ['raspberrypi,4-model-b\0brcm,bcm2711\0', false],
    ['', false],
  ])('of %j is %s', (text, want) => {
    expect(isTegraCompatible(text)).toBe(want)
  })
})
