// A budget lowers the GPU memory that counts; it never raises it, and never invents what is unknown. Pure.
import { parseBytes } from '@muster/host'
import type { Resources } from '@muster/protocol'

function budgetBytes(budget: string, totalBytes: number): number | null {
  const percent = /^(\d+(?:\.\d+)?)\s?%$/.exec(budget)?.[1]
  return percent === undefined ? parseBytes(budget) : Math.floor((totalBytes * Number(percent)) / 100)
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
