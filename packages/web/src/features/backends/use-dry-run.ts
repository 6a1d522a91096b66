// What would happen, asked again a moment after something was changed. What was answered before stays in sight meanwhile.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { keys } from '../../api/keys.ts'
import { useSettled } from '../../components/use-settled.ts'
import { dryRun, type Wish } from './wish.ts'

/** `wish` is null while it can't be asked for. `world`: what the answer depends on beside the wish; another one asks again. */
export function useDryRun(wish: Wish | null, world: string) {
  const text = wish === null ? null : JSON.stringify(wish)
  const asked = useSettled(text)
  const query = useQuery({
    queryKey: keys.dryRun(asked, world),
    // It was made of a wish a moment ago.
    queryFn: ({ signal }) => dryRun(JSON.parse(asked ?? '') as Wish, signal),
    enabled: asked !== null,
    placeholderData: keepPreviousData,
    staleTime: 0,
    gcTime: 0,
    retry: false,
  })
  const isCurrent = text !== null && asked === text && query.isSuccess && !query.isPlaceholderData
  return { query, isCurrent }
}
