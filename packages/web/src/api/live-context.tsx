// Runs the one stream of events of a page, and tells whoever asks how it stands.
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
        // A frame's worth of events is one change. A page that nobody sees has no frames.
        if (cache.isEmpty) setTimeout(() => cache.flush(), document.hidden ? 1_000 : 50)
        cache.take(event)
      },
      onGap: () => cache.readAgain(),
      onLiveness: setLiveness,
    })
    return () => stop.abort()
  }, [cache])
  return <LivenessContext value={liveness}>{children}</LivenessContext>
}
