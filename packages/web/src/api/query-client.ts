// The one cache of what the server says. Nothing in it grows old by time: events keep it true, and whoever misses some
// reads everything again.
import { MutationCache, QueryClient } from '@tanstack/react-query'
import { ApiFailure, isLoggedOut } from './client.ts'
import { keys } from './keys.ts'

const isWorthRepeating = (error: unknown): boolean =>
  error instanceof ApiFailure && (error.status === 0 || error.status === 429 || error.status >= 500)

export function createQueryClient(): QueryClient {
  // Whoever was logged out meanwhile is told by the first thing that is refused: the frame asks who is there, and shows the login.
  const mutationCache = new MutationCache({
    onError: (error) => void (isLoggedOut(error) && client.invalidateQueries({ queryKey: keys.status })),
  })
  const client = new QueryClient({
    mutationCache,
    defaultOptions: {
      queries: {
        staleTime: Infinity,
        gcTime: 10 * 60_000,
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
        retry: (_, error) => isWorthRepeating(error),
        retryDelay: (failures) => Math.min(1_000 * 2 ** failures, 10_000),
        // A browser's word that there is no network is wrong where the controller is on this very machine.
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  })
  return client
}
