// The limits of a node: of the one that its worker was started with and the one of an administrator, the lower counts. Pure.
import { parseBytes } from '@muster/host'
import type { NodeLimits, Resources } from '@muster/protocol'

export interface LimitSources {
  readonly resources: Resources
  /** Set by an administrator, as is `maxReplicasPerModel`; null: not set. */
  readonly vramBudget: string | null
  readonly maxReplicasPerModel: number | null
}

export function limitsInEffect({ resources, vramBudget, maxReplicasPerModel }: LimitSources): NodeLimits {
  const { total_vram: total, vram_budget: ofWorker, max_replicas_per_model: mostOfWorker } = resources
  return {
    vram_budget: lower(
      ofWorker === undefined ? null : { value: ofWorker, from: 'worker', amount: budgetBytes(ofWorker, total) },
      vramBudget === null ? null : { value: vramBudget, from: 'api', amount: budgetBytes(vramBudget, total) },
    ),
    max_replicas_per_model: lower(
      mostOfWorker === undefined ? null : { value: mostOfWorker, from: 'worker', amount: mostOfWorker },
      maxReplicasPerModel === null ? null : { value: maxReplicasPerModel, from: 'api', amount: maxReplicasPerModel },
    ),
  }
}

type Limit<T> = Readonly<{ value: T; from: 'worker' | 'api' }>
/** `amount` is null when two limits cannot be compared; then the one of the administrator is shown. */
type Comparable<T> = Limit<T> & Readonly<{ amount: number | null }>

function lower<T>(ofWorker: Comparable<T> | null, ofAdministrator: Comparable<T> | null): Limit<T> | null {
  if (ofWorker === null || ofAdministrator === null) return shown(ofWorker ?? ofAdministrator)
  const isWorkerLower = ofWorker.amount !== null && ofAdministrator.amount !== null && ofWorker.amount < ofAdministrator.amount
  return shown(isWorkerLower ? ofWorker : ofAdministrator)
}

const shown = <T>(limit: Comparable<T> | null): Limit<T> | null => (limit === null ? null : { value: limit.value, from: limit.from })

/** A budget lowers the GPU memory that counts; it never raises it, and unknown memory stays unknown. */
export function applyVramBudget(resources: Resources, vramBudget: string | null): Resources {
  const { total_vram: total } = resources
  const budget = limitsInEffect({ resources, vramBudget, maxReplicasPerModel: null }).vram_budget
  const bytes = budget === null ? null : budgetBytes(budget.value, total)
  if (total === null || bytes === null || bytes >= total) return resources
  const { available_vram: available } = resources
  return { ...resources, total_vram: bytes, available_vram: available === null ? null : Math.max(0, available - (total - bytes)) }
}

/** A percentage of an unknown amount is unknown. */
function budgetBytes(budget: string, totalBytes: number | null): number | null {
  const percent = /^(\d+(?:\.\d+)?)\s?%$/.exec(budget)?.[1]
  if (percent === undefined) return parseBytes(budget)
  return totalBytes === null ? null : Math.floor((totalBytes * Number(percent)) / 100)
}
