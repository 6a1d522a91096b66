// Keeps the trees of the installed backends intact: inspects them from time to time, and repairs a damaged one from content on
// this machine. Content that is not here is fetched by commands only; until then the inventory reports the damage.
import { type Clock, createLoop, errorMessage, type Log } from '@muster/host'
import type { BackendName, Digest } from '@muster/protocol'
import type { BackendStore } from '../storage/backend-store.ts'

export interface TreeKeeper {
  /** A tree was found damaged, or a process needs one that is: repairs it now. */
  wake(): void
  /** Until aborted. */
  run(signal: AbortSignal): Promise<void>
}

type TreeKeeperDeps = Readonly<{
  store: Pick<BackendStore, 'list' | 'condition' | 'inspect'>
  /** False when this machine does not have the content. */
  repair: (backend: BackendName, signal: AbortSignal) => Promise<boolean>
  /** Called when the condition of a tree has changed. */
  onChanged: () => void
  clock: Clock
  log: Log
}>

const everyMs = 60_000
/** Large trees are inspected less often: the inspection takes at most this share of the time. */
const mostShare = 0.01

export function createTreeKeeper({ store, repair, onChanged, clock, log }: TreeKeeperDeps): TreeKeeper {
  const loop = createLoop({ what: 'cannot inspect the installed backends; retrying', clock, log, retryMs: everyMs })
  /** Damaged trees without content on this machine. Not tried again until a process needs one. */
  const beyondRepair = new Set<Digest>()

  const repairTree = async (name: BackendName, tree: Digest, signal: AbortSignal): Promise<void> => {
    const isRepaired = await repair(name, signal).catch((error: unknown) => {
      if (!signal.aborted) log.warn('cannot repair a damaged backend', { backend: name, reason: errorMessage(error) })
      return false
    })
    if (isRepaired) onChanged()
    else beyondRepair.add(tree)
  }
  let isFirst = true
  const round = async (signal: AbortSignal, isDue: boolean): Promise<number> => {
    const startedAt = clock.monotonic()
    // A start has other work for the disk, and a tree that is inspected is not collected.
    if (isFirst) {
      isFirst = false
      return everyMs
    }
    if (!isDue) beyondRepair.clear()
    for (const { name, digest } of await store.list()) {
      const before = await store.condition(digest)
      const found = before === 'intact' ? await store.inspect(digest, { signal }) : before
      if (found !== before) onChanged()
      if (found !== 'intact' && !beyondRepair.has(digest)) await repairTree(name, digest, signal)
    }
    return Math.max(everyMs, (clock.monotonic() - startedAt) / mostShare)
  }
  return { wake: loop.wake, run: (signal) => loop.run(round, signal) }
}
