// The last ten seconds as an object of the event stream: what all controllers have written of them by then.
import type { StatsStore } from '../store/stats.ts'

export function createStatsReader(stats: Pick<StatsStore, 'list'>) {
  return async (ids: readonly string[]): Promise<Map<string, object>> => {
    const read = async (at: string): Promise<[string, object]> => [
      at,
      { id: at, at, bucket_seconds: 10, buckets: await stats.list({ since: at, until: at }) },
    ]
    return new Map(await Promise.all(ids.map(read)))
  }
}
