// A budget lowers the GPU memory that counts; it never raises it, and never invents what is unknown. Pure.
import type { Resources } from '@muster/protocol'

const units: Readonly<Record<string, number>> = {
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
}

function budgetBytes(budget: string, totalBytes: number): number | null {
  const match = /^(\d+(?:\.\d+)?)\s?(%|[A-Za-z]+)$/.exec(budget)
  if (match === null) return null
  const [, amount, unit = ''] = match
  if (unit === '%') return Math.floor((totalBytes * Number(amount)) / 100)
  const factor = units[unit.toLowerCase()]
  return factor === undefined ? null : Math.floor(Number(amount) * factor)
}

export function applyVramBudget(resources: Resources, budget: string | null): Resources {
  if (budget === null || resources.total_vram === null) return resources
  const bytes = budgetBytes(budget, resources.total_vram)
  if (bytes === null || bytes >= resources.total_vram) return resources
  const withheld = resources.total_vram - bytes
  return {
    ...resources,
    total_vram: bytes,
    available_vram: resources.available_vram === null ? null : Math.max(0, resources.available_vram - withheld),
  }
}
