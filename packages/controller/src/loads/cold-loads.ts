// What those who route requests ask of loads: that one is under way, and how it stands. However many ask here at once, the
// database is asked once.
import { ModelName } from '@muster/protocol'
import type { ColdLoads, LoadStatus } from '../inference/cold-loads.ts'
import type { LoadStore } from '../store/loads.ts'
import type { LoadStatuses } from './status.ts'

export interface ColdLoadsDeps {
  readonly loads: Pick<LoadStore, 'ensure'>
  readonly statuses: LoadStatuses
  readonly wake: () => void
}

export function createColdLoads({ loads, statuses, wake }: ColdLoadsDeps): ColdLoads {
  const running = new Map<string, Promise<LoadStatus>>()
  const status = async (model: string): Promise<LoadStatus> => (await statuses.of(ModelName.parse(model))) ?? notBegun(model)
  const ensureOnce = async (model: string): Promise<LoadStatus> => {
    // One that failed, and whose next try is not due, is left alone.
    if (await loads.ensure(ModelName.parse(model))) wake()
    return await status(model)
  }
  return {
    ensure(model) {
      const shared = running.get(model)
      if (shared !== undefined) return shared
      const own = ensureOnce(model).finally(() => running.delete(model))
      running.set(model, own)
      return own
    },
    status,
  }
}

/** Nobody loads it: it was unloaded, or its load is about to be made. */
const notBegun = (model: string): LoadStatus => ({
  kind: 'loading',
  loading: { model, state: 'pending', node: null, progress: 0, current_bytes: 0, total_bytes: 0 },
})
