// When each model was last asked for, so that what nobody asks for can go. Written now and then, never while a request waits.
import { createTrouble, type Clock, type Log } from '@muster/host'
import type { RouteStore } from '../store/routes.ts'

const writeEveryMs = 10_000

export function createUsedMarks({ routes, clock, log }: { routes: Pick<RouteStore, 'markUsed'>; clock: Clock; log: Log }) {
  const used = new Set<string>()
  const trouble = createTrouble({ what: 'which models were used can not be written', clock, log })

  async function write(): Promise<void> {
    const models = [...used]
    used.clear()
    await routes.markUsed(models).then(
      () => trouble.over(),
      (error: unknown) => {
        for (const model of models) used.add(model)
        trouble.failed({ error })
      },
    )
  }

  return {
    note: (model: string): void => void used.add(model),
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await clock.sleep(writeEveryMs, signal).catch(() => undefined)
        await write()
      }
    },
  }
}
