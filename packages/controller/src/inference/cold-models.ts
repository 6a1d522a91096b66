// Requests that wait for a model to come up. Who goes away stops waiting and ends nothing.
import type { LoadStatus } from './cold-loads.ts'
import { endOf, ModelWatch, type ColdModelsDeps, type ColdRefusal, type Waiting } from './model-watch.ts'

/** A model that can't come up is asked for again and again: the answer is good for that long. */
const rememberMs = 500
const maxRemembered = 1_000

export type ColdModels = ReturnType<typeof createColdModels>

export function createColdModels(deps: ColdModelsDeps) {
  const { clock } = deps
  const watches = new Map<string, ModelWatch>()
  const remembered = new Map<string, { status: LoadStatus; until: number }>()
  let count = 0

  function watchOf(model: string): { watch: ModelWatch; isNew: boolean } {
    const known = watches.get(model)
    if (known !== undefined) return { watch: known, isNew: false }
    const watch = new ModelWatch(model, deps)
    watches.set(model, watch)
    return { watch, isNew: true }
  }

  function onEnd(model: string, status: LoadStatus | null): void {
    watches.delete(model)
    if (status?.kind !== 'failed' && status?.kind !== 'no_capacity') return
    if (remembered.size >= maxRemembered) remembered.clear()
    remembered.set(model, { status, until: clock.monotonic() + rememberMs })
  }

  function recentEnd(model: string, waiting: Waiting): ColdRefusal | null | undefined {
    const recent = remembered.get(model)
    if (recent === undefined) return undefined
    // With a replica there it is not true any more, whoever answers.
    const hasReplicas = (deps.table.find(model)?.replicas.length ?? 0) > 0
    if (!hasReplicas && recent.until > clock.monotonic()) return endOf({ model, status: recent.status, waiting }, deps)
    remembered.delete(model)
    return undefined
  }

  return {
    /** Null: look again who can be asked, or nobody is there to be answered. */
    async wait(model: string, waiting: Waiting): Promise<ColdRefusal | null> {
      const recent = recentEnd(model, waiting)
      if (recent !== undefined) return recent
      const { watch, isNew } = watchOf(model)
      const end = watch.wait(waiting)
      if (isNew) void watch.run((status) => onEnd(model, status))
      count += 1
      try {
        return await end
      } finally {
        count -= 1
      }
    },
    /** Requests that wait now. */
    count: (): number => count,
  }
}
