import { Resources } from '@muster/protocol'
import { expect, it } from 'vitest'
import { memoryOf, describeMachine } from './node-words.pure.ts'

const gb = 1e9
it.each([
  ['with a GPU', { total_vram: 80 * gb, available_vram: 19 * gb, total_ram: gb, available_ram: gb }, { kind: 'VRAM', text: '61 of 80 GB' }],
  ['without one', { total_ram: 64 * gb, available_ram: 48 * gb }, { kind: 'RAM', text: '16 of 64 GB', percent: 25 }],
  ['that reports more free than total memory', { total_ram: gb, available_ram: 2 * gb }, { text: '0 of 1 GB', percent: 0 }],
] as const)('shows the memory of a node %s', (_, resources, want) => expect(memoryOf(Resources.parse(resources))).toMatchObject(want))

it.each([
  ['all is unknown', {}],
  ['free memory is unknown', { total_ram: gb }],
] as const)('shows no memory where %s', (_, resources) => expect(memoryOf(Resources.parse(resources))).toBe(null))

it('describes a machine without unknown values', () => {
  const text = describeMachine({ resources: Resources.parse({ cpus: 1, total_ram: 64 * gb, available_disk: 812 * gb }) })
  expect(text.replaceAll('\u00a0', ' ')).toBe('1 CPU · 64 GB RAM · 812 GB disk free')
  expect(describeMachine({ resources: Resources.parse({ cpus: 8 }) })).toBe('8\u00a0CPUs')
})
