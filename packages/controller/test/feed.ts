// A controller's change feed for tests, woken by a timer instead of the database.
import { systemClock, type Log } from '@muster/host'
import { ChangeFeed, type ChangeListener } from '../src/events/feed.ts'
import type { Store } from '../src/store/store.ts'

export function createFeed({ store, log }: { store: Store; log: Log }, listener: ChangeListener) {
  const feed = new ChangeFeed({ changes: store.changes, clock: systemClock, log })
  feed.listen(listener)
  return {
    async run(signal: AbortSignal): Promise<void> {
      const timer = setInterval(() => feed.wake(), 50)
      await feed.run(signal)
      clearInterval(timer)
    },
  }
}
