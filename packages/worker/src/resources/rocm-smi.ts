// What rocm-smi prints, read. Warnings may stand before or after the JSON.
import { z } from 'zod'
import type { Gpu } from './gpu.ts'
import { parseNumber, saneFree, saneTotal } from './sane-bytes.ts'

export const rocmSmi = { program: 'rocm-smi', args: ['--showmeminfo', 'vram', '--json'] } as const

const Cards = z.record(z.string(), z.unknown())
const Card = z.record(z.string(), z.unknown())

export function parseRocmSmi(stdout: string): readonly Gpu[] {
  const cards = Cards.safeParse(jsonIn(stdout))
  if (!cards.success) return []
  return Object.entries(cards.data).flatMap(([key, value]): Gpu[] => {
    const card = Card.safeParse(value)
    if (!/^card\d+$/.test(key) || !card.success) return []
    const totalBytes = saneTotal(figure(card.data['VRAM Total Memory (B)']))
    const used = figure(card.data['VRAM Total Used Memory (B)'])
    const freeBytes = totalBytes === null || used === undefined ? null : saneFree(totalBytes - used, totalBytes)
    return [{ vendor: 'amd', name: key, totalBytes, freeBytes, unified: false }]
  })
}

const figure = (value: unknown): number | undefined =>
  typeof value === 'string' ? parseNumber(value) : typeof value === 'number' ? value : undefined

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1))
  } catch {
    return null
  }
}
