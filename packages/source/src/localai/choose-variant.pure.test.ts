import { describe, expect, it } from 'vitest'
import { chooseVariant, type VariantCandidate, type VariantNode } from './choose-variant.pure.ts'

const gb = 1e9
const build = (name: string, sizeBytes: number | null, more: Partial<VariantCandidate> = {}): VariantCandidate => ({
  ...{ name, backend: 'llama-cpp', sizeBytes, tags: [] },
  ...more,
})
const node = (capability: string, gpuGb: number, ramGb = 64): VariantNode => ({
  ...{ name: capability, capability, gpuBytes: gpuGb * gb, ramBytes: ramGb * gb },
})
const base = build('base', 8 * gb)

interface Case {
  readonly base?: VariantCandidate
  readonly variants: readonly VariantCandidate[]
  readonly nodes: readonly VariantNode[]
}

describe('chooseVariant', () => {
  it.each<[string, Case, string]>([
    [
      'the largest that fits',
      { variants: [build('small', 4 * gb), build('large', 16 * gb)], nodes: [node('nvidia-cuda-12', 24)] },
      'large',
    ],
    [
      'the entry itself when all others are too large',
      { variants: [build('large', 30 * gb)], nodes: [node('nvidia-cuda-12', 24)] },
      'base',
    ],
    [
      'a smaller one when the entry is too large',
      { base: build('base', 40 * gb), variants: [build('small', 4 * gb)], nodes: [node('amd', 24)] },
      'small',
    ],
    [
      'the entry itself, too large, when nothing fits',
      { base: build('base', 90 * gb), variants: [build('b', 80 * gb)], nodes: [node('amd', 24)] },
      'base',
    ],
    ['by memory of the machine without a GPU', { variants: [build('large', 60 * gb)], nodes: [node('default', 0, 64)] }, 'base'],
    [
      'one that fits a single node of many',
      { variants: [build('large', 60 * gb)], nodes: [node('default', 0), node('nvidia', 80)] },
      'large',
    ],
    [
      'a known fit before an entry of unknown size',
      { base: build('base', null), variants: [build('b', 2 * gb)], nodes: [node('amd', 24)] },
      'b',
    ],
    [
      'the entry before a build of unknown size',
      { base: build('base', null), variants: [build('b', null)], nodes: [node('amd', 24)] },
      'base',
    ],
    [
      'the preferred engine before the size',
      { variants: [build('v', 4 * gb, { backend: 'vllm' })], nodes: [node('nvidia-cuda-12', 24)] },
      'v',
    ],
    ['another engine without a GPU', { variants: [build('v', 9 * gb, { backend: 'vllm' })], nodes: [node('default', 0)] }, 'base'],
    ['mlx on a Mac', { variants: [build('m', 4 * gb, { backend: 'mlx' })], nodes: [node('metal', 24)] }, 'm'],
    ['no build for other hardware', { variants: [build('m', 16 * gb, { backend: 'mlx' })], nodes: [node('nvidia', 24)] }, 'base'],
    [
      'dflash before mtp before neither',
      { variants: [build('m', 9 * gb, { tags: ['mtp'] }), build('d', 8 * gb, { tags: ['dflash'] })], nodes: [node('amd', 24)] },
      'd',
    ],
    [
      'mtp before a larger build',
      { variants: [build('m', 4 * gb, { tags: ['mtp'] }), build('l', 16 * gb)], nodes: [node('amd', 24)] },
      'm',
    ],
    ['the first of equal ones', { variants: [build('b', 8 * gb), build('c', 8 * gb)], nodes: [node('amd', 24)] }, 'base'],
    ['the entry itself without nodes', { variants: [build('b', 1)], nodes: [] }, 'base'],
  ])('takes %s', (_, { base: own = base, variants, nodes }, chosen) => {
    const choice = chooseVariant({ base: own, variants, nodes, pin: null })
    expect(choice?.chosen).toBe(chosen)
    expect(choice?.all.map(({ name }) => name)).toEqual([own, ...variants].map(({ name }) => name))
    for (const { reason } of choice?.all ?? []) expect(reason).not.toBe('')
  })

  it('says why', () => {
    const variants = [build('fits', 16 * gb), build('large', 60 * gb), build('m', 4 * gb, { backend: 'metal-llama-cpp' })]
    const choice = chooseVariant({ base, variants, nodes: [{ ...node('nvidia-cuda-12', 24), name: 'gpu-1' }], pin: null })
    expect(choice).toMatchObject({ chosen: 'fits', reason: 'it needs about 17.6 GB, and gpu-1 has 24 GB of GPU memory' })
    expect(choice?.all.map(({ reason }) => reason)).toEqual([
      'fits ranks higher',
      choice?.reason,
      'it needs about 66 GB; no node with the hardware for it has more than 24 GB',
      'no node has the hardware for metal-llama-cpp',
    ])
  })

  it('takes the pin whatever the hardware, and refuses an unknown one', () => {
    const variants = [build('large', 600 * gb)]
    const nodes = [node('default', 0)]
    expect(chooseVariant({ base, variants, nodes, pin: 'large' })).toMatchObject({ chosen: 'large', reason: 'the request names it' })
    expect(chooseVariant({ base, variants, nodes, pin: 'gone' })).toBeNull()
  })
})
