// What would happen, asked again a moment after something was changed. What was answered before stays in sight meanwhile.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { dryRun, type Wish } from './wish.ts'

const debounceMs = 250

/** `wish` is null while it can't be asked for. `world`: what the answer depends on beside the wish; another one asks again. */
export function useDryRun(wish: Wish | null, world: string) {
  const asked = useSettled(wish === null ? '' : JSON.stringify(wish))
  const query = useQuery({
    queryKey: ['dry-run', asked, world],
    // It was made of a wish a moment ago.
    queryFn: ({ signal }) => dryRun(JSON.parse(asked) as Wish, signal),
    enabled: asked !== '',
    placeholderData: keepPreviousData,
    staleTime: 0,
    gcTime: 0,
    retry: false,
  })
  const isCurrent = wish !== null && asked === JSON.stringify(wish) && query.isSuccess && !query.isPlaceholderData
  return { query, isCurrent }
}

/** The value once it has stayed the same for a moment; the first one at once. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    // Nothing to something is no typing.
    const timer = setTimeout(() => setSettled(value), settled === '' ? 0 : debounceMs)
    return () => clearTimeout(timer)
  }, [value, settled])
  return settled
}
