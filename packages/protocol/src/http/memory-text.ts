// The memory of replicas and GPUs as people read it, the same in CLI and web.
import { formatBytes } from '../amounts.ts'
import type { GpuProcess } from '../messages/node.ts'
import type { NodeMemory, ReplicaMemory } from './placement.ts'

/** `1.7 GB: 2.9 MB weights, 1.4 GB cache, 145 MB compute, 151 MB process`. */
export function formatReplicaMemory({ basis, parts }: ReplicaMemory): string {
  if (parts === null) return basis === 'size' ? 'estimated from the sizes of its files' : 'unknown; none of its files was read yet'
  const { weights, cache, compute, mmproj, process, total } = parts
  const named: readonly (readonly [number, string])[] = [
    [weights, 'weights'],
    [cache, 'cache'],
    [compute, 'compute'],
    [mmproj, 'mmproj'],
    [process, 'process'],
  ]
  const used = named.filter(([bytes]) => bytes > 0).map(([bytes, name]) => `${formatBytes(bytes)} ${name}`)
  return `${formatBytes(total)}: ${used.join(', ')}`
}

/** `5.6 GB on GPU NVIDIA L4 and 310 MB RAM`; empty when nothing is booked. */
export function formatNodeMemory({ ram, vram, card }: NodeMemory): string {
  const gpu = card === null ? 'GPU memory' : `on GPU ${card.name || card.id}`
  return [...(vram > 0 ? [`${formatBytes(vram)} ${gpu}`] : []), ...(ram > 0 ? [`${formatBytes(ram)} RAM`] : [])].join(' and ')
}

/** `2 GB replica r-1 (python3, PID 101)`. */
export function formatGpuProcess({ pid, bytes, name, replica_id: replica }: GpuProcess): string {
  const program = name === '' ? `PID ${pid}` : `${name}, PID ${pid}`
  return `${formatBytes(bytes)} ${replica === undefined ? program : `replica ${replica} (${program})`}`
}
