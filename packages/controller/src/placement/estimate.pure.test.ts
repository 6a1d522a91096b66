import type { GgufFacts } from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { estimateMemory, type MemorySettings, splitMemory } from './estimate.pure.ts'

const MiB = 2 ** 20
const settings = (over: Partial<MemorySettings> = {}): MemorySettings => ({
  ...{ contextTokens: 8_192, slots: 1, keyType: null, valueType: null, batch: 512 },
  ...{ hasFlashAttention: true, hasFullWindow: false, processBytes: 0 },
  ...over,
})
/** Llama 3.1 8B in Q4_K_M. */
const llama = (over: Partial<GgufFacts> = {}): GgufFacts => ({
  ...{ reader: 1, architecture: 'llama', kind: 'model', layers: 32, context: 131_072, embedding: 4_096, feed_forward: 14_336 },
  ...{ heads: 32, kv_heads: 8, vocabulary: 128_256 },
  tensors: { count: 292, bytes: 4_912_898_048, layer_bytes: 4_200_000_000, input_bytes: 295_501_824 },
  ...over,
})
const estimate = (facts: GgufFacts, over: Partial<MemorySettings> = {}) =>
  estimateMemory({ main: facts, weightBytes: facts.tensors.bytes ?? 0, projectorBytes: 0, draft: null }, settings(over))
const cells = (tokens: number): number => tokens * 64

describe('the cache', () => {
  const perToken = 32 * 2 * 8 * 128 * 2
  it.each<[string, GgufFacts, Partial<MemorySettings>, number]>([
    ['has keys and values of every layer and token', llama(), {}, 8_192 * perToken + cells(8_192)],
    ['grows with the context', llama(), { contextTokens: 65_536 }, 65_536 * perToken + cells(65_536)],
    ['is divided among slots, each rounded up', llama(), { contextTokens: 1_000, slots: 4 }, 1_024 * perToken + cells(1_024)],
    [
      'is smaller with quantized types',
      llama(),
      { keyType: 'q8_0', valueType: 'q4_0' },
      8_192 * perToken * (34 / 32 + 18 / 32) * 0.25 + cells(8_192),
    ],
    ['counts an unknown type as f16', llama(), { keyType: 'new' }, 8_192 * perToken + cells(8_192)],
    ['uses the lengths of the file', llama({ key_length: 64, value_length: 32 }), {}, 8_192 * 32 * 8 * 96 * 2 + cells(8_192)],
    ['has layers without heads', llama({ layers: 2, kv_heads: [8, 0] }), {}, 8_192 * 2 * 8 * 128 * 2 + cells(8_192)],
    [
      'has the state of recurrent layers',
      llama({ layers: 2, kv_heads: [8, 0], recurrent_state: 100 }),
      { slots: 2 },
      8_192 * 4_096 + 2 * 400 + cells(8_192),
    ],
    ['is none for encoders', llama({ architecture: 'bert' }), {}, 0],
    [
      'of layers with a window is that of the window and a batch',
      llama({ architecture: 'gemma3', layers: 6, window: 1_024 }),
      {},
      (5 * 1_536 + 8_192) * 4_096 + cells(8_192),
    ],
    [
      'of layers with a window is whole when the engine keeps it whole',
      llama({ architecture: 'gemma3', layers: 6, window: 1_024 }),
      { hasFullWindow: true },
      6 * 8_192 * 4_096 + cells(8_192),
    ],
    [
      'follows the pattern of the file',
      llama({ layers: 2, window: 512, window_pattern: [1, 0] }),
      {},
      (1_024 + 8_192) * 4_096 + cells(8_192),
    ],
    ['ignores the window of an architecture that has no turns', llama({ layers: 2, window: 512 }), {}, 2 * 8_192 * 4_096 + cells(8_192)],
  ])('%s', (_, facts, over, want) => {
    expect(estimate(facts, over).kvCache).toBe(want)
  })
})

describe('the estimate', () => {
  it('of a known model is near its real use', () => {
    // 4,685 MiB of weights, 1,024 MiB of cache and 258 MiB of buffers, as llama.cpp prints for this model and context.
    const { weights, kvCache, compute, total } = estimate(llama())
    expect(weights / MiB).toBeCloseTo(4_685, -1)
    expect(kvCache / MiB).toBeCloseTo(1_024, -1)
    expect(compute / MiB / 258).toBeGreaterThan(0.8)
    expect(compute / MiB / 258).toBeLessThan(2)
    expect(total).toBe(weights + kvCache + compute)
  })

  it('has a projector, a draft model and the process', () => {
    const draft = { facts: llama({ layers: 1 }), weightBytes: 1_000 }
    const whole = estimateMemory({ main: llama(), weightBytes: 5_000, projectorBytes: 1_000, draft }, settings({ processBytes: 7 }))
    expect(whole).toMatchObject({ weights: 6_000, mmproj: 1_200, process: 7, layers: 32 })
    expect(whole.kvCache).toBeGreaterThan(estimate(llama()).kvCache)
  })

  it('without flash attention has the scores of a batch', () => {
    const more = estimate(llama(), { hasFlashAttention: false }).compute - estimate(llama()).compute
    expect(more).toBe(512 * 8_192 * 32 * 4)
  })

  it('never falls when context, slots or batch grow', () => {
    const whole = fc.integer({ min: 1, max: 200_000 })
    fc.assert(
      fc.property(whole, whole, fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 4_096 }), (tokens, more, slots, batch) => {
        const before = estimate(llama(), { contextTokens: tokens, slots, batch })
        expect(estimate(llama(), { contextTokens: tokens + more, slots, batch }).total).toBeGreaterThanOrEqual(before.total)
        expect(estimate(llama(), { contextTokens: tokens, slots, batch: batch + more }).total).toBeGreaterThanOrEqual(before.total)
        expect(before.total).toBe(before.weights + before.kvCache + before.compute + before.mmproj + before.process)
        expect(Number.isSafeInteger(before.total)).toBe(true)
      }),
    )
  })
})

describe('the memory of a split model', () => {
  const whole = estimate(llama(), { processBytes: 100 * MiB })
  const split = (gpuLayers: number) => splitMemory(whole, { gpuLayers, inputBytes: llama().tensors.input_bytes })

  it('is all in the machine without layers on a GPU', () => {
    expect(split(0)).toEqual({ ram: whole.total, vram: 0 })
  })

  it('leaves the token embeddings and the process in the machine', () => {
    const { ram, vram } = split(99)
    expect(ram).toBe(llama().tensors.input_bytes + 100 * MiB)
    expect(vram).toBe(whole.total - ram + 256 * MiB)
  })

  it('moves to the GPU with each layer, and loses nothing', () => {
    const all = Array.from({ length: 33 }, (_, layers) => split(layers))
    for (const [layers, { ram, vram }] of all.entries()) {
      expect(ram + vram).toBeGreaterThanOrEqual(whole.total)
      if (layers > 0) expect(vram).toBeGreaterThan(all[layers - 1]?.vram ?? Infinity)
      if (layers > 1) expect(ram).toBeLessThan(all[layers - 1]?.ram ?? 0)
    }
  })
})
