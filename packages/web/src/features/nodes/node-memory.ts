// What a node has, and how much of it is taken. Pure. What it does not say is not shown: unknown is neither none nor all.
import type { NodeView, Resources } from '@muster/protocol'
import { formatBytes, formatBytesOf, plural } from '../../format/amounts.ts'

export interface Taken {
  readonly kind: 'VRAM' | 'RAM'
  readonly percent: number
  /** `61 of 80 GB`. */
  readonly text: string
}

/** Of the memory that models are placed by: that of its GPU, or its RAM when there is none. */
export function memoryOf({ total_vram, available_vram, total_ram, available_ram }: Resources): Taken | null {
  if (total_vram !== null && total_vram > 0) return taken('VRAM', total_vram, available_vram)
  return total_ram === null ? null : taken('RAM', total_ram, available_ram)
}

function taken(kind: Taken['kind'], total: number, available: number | null): Taken | null {
  if (available === null || total === 0) return null
  const used = Math.max(0, total - available)
  return { kind, percent: (used / total) * 100, text: formatBytesOf(used, total) }
}

/** A line breaks between its parts alone: `16 CPUs · 64 GB RAM · 812 GB free disk`. */
export function sayMachine({ resources }: Pick<NodeView, 'resources'>): string {
  const { cpus, total_ram: ram, available_disk: disk } = resources
  return [
    cpus === null ? null : plural(cpus, 'CPU'),
    ram === null ? null : `${formatBytes(ram)} RAM`,
    disk === null ? null : `${formatBytes(disk)} disk free`,
  ]
    .filter((part) => part !== null)
    .map((part) => part.replaceAll(' ', '\u00a0'))
    .join(' · ')
}
