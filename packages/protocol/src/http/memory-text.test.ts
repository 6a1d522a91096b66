import { expect, it } from 'vitest'
import { formatGpuProcess, formatNodeMemory, formatReplicaMemory } from './memory-text.ts'
import type { NodeMemory, ReplicaMemory } from './placement.ts'
import { ReplicaId } from '../ids.ts'

const parts = { weights: 2.9e6, cache: 1.4e9, compute: 145e6, mmproj: 0, process: 151e6, total: 1.7e9, per_layer: 0, layers: 4 }

it.each<[ReplicaMemory, string]>([
  [{ basis: 'gguf', parts }, '1.7 GB: 2.9 MB weights, 1.4 GB cache, 145 MB compute, 151 MB process'],
  [
    { basis: 'gguf', parts: { ...parts, mmproj: 5e8 } },
    '1.7 GB: 2.9 MB weights, 1.4 GB cache, 145 MB compute, 500 MB mmproj, 151 MB process',
  ],
  [{ basis: 'size', parts: null }, 'estimated from the sizes of its files'],
  [{ basis: 'unknown', parts: null }, 'unknown; none of its files was read yet'],
])('the memory of a replica is shown by its parts: %#', (memory, text) => expect(formatReplicaMemory(memory)).toBe(text))

const node: NodeMemory = { device: 'gpu', ram: 310e6, vram: 5.6e9, free_ram: null, free_vram: null, card: { id: 'GPU-a', name: 'L4' } }

it.each<[Partial<NodeMemory>, string]>([
  [{}, '5.6 GB on GPU L4 and 310 MB RAM'],
  [{ card: null }, '5.6 GB GPU memory and 310 MB RAM'],
  [{ vram: 0, device: 'cpu' }, '310 MB RAM'],
  [{ vram: 0, ram: 0 }, ''],
])('the memory on a node is shown by its kind: %#', (some, text) => expect(formatNodeMemory({ ...node, ...some })).toBe(text))

it('a process on a GPU is shown with its amount and its replica', () => {
  const process = { pid: 101, bytes: 2e9, name: 'python3' }
  expect(formatGpuProcess({ ...process, replica_id: ReplicaId.parse('r-1') })).toBe('2 GB replica r-1 (python3, PID 101)')
  expect(formatGpuProcess({ ...process, name: '', bytes: null })).toBe('- PID 101')
})
