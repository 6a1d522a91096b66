// Runs the page's one event stream and provides its liveness.
import { useQueryClient } from '@tanstack/react-query'
import { createContext, useContext, useEffect, useMemo, useState, type ReactNode } from 'react'
import { followEvents, type Liveness } from './follow-events.ts'
import { LiveCache } from './live-cache.ts'

const LivenessContext = createContext<Liveness>({ state: 'connecting' })

export const useLiveness = (): Liveness => useContext(LivenessContext)

export function LiveProvider({ children }: { readonly children: ReactNode }) {
  const client = useQueryClient()
  const [liveness, setLiveness] = useState<Liveness>({ state: 'connecting' })
  const cache = useMemo(() => new LiveCache(client), [client])
  useEffect(() => {
    const stop = new AbortController()
    void followEvents({
      signal: stop.signal,
      onEvent: (event) => {
        // Events are applied in batches; less often while the page is hidden.
        if (cache.isEmpty) setTimeout(() => cache.flush(), document.hidden ? 1_000 : 50)
        cache.add(event)
      },
      onGap: () => cache.invalidateAll(),
      onLiveness: setLiveness,
    })
    return () => stop.abort()
  }, [cache])
  return <LivenessContext value={liveness}>{children}</LivenessContext>
}
