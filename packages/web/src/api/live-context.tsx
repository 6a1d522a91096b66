// Follows GET /api/events while the page is open, and provides its liveness.
import { useQueryClient } from '@tanstack/react-query'
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from 'react'
import { createSseParser, type ServerEvent, systemRoutes } from '@muster/protocol'
import { ApiFailure, open, toApiFailure } from './client.ts'
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

export type Liveness =
  /** Before the first connection. */
  | { readonly state: 'connecting' }
  | { readonly state: 'live' }
  /** The page shows the state of `since`. */
  | { readonly state: 'reconnecting'; readonly since: number }
  | { readonly state: 'logged_out' }

interface FollowDeps {
  readonly signal: AbortSignal
  readonly onEvent: (event: ServerEvent) => void
  /** Events may have been missed: everything has to be read again. */
  readonly onGap: () => void
  readonly onLiveness: (liveness: Liveness) => void
}

/** Almost three intervals of the server's pings: after that the connection is dead. */
const silenceMs = 40_000
const retryDelayMs = (failures: number): number => Math.min(500 * 2 ** failures, 5_000)

/** Reconnects from the last event. */
export async function followEvents(deps: FollowDeps): Promise<void> {
  let lastEventId = ''
  let failures = 0
  let since: number | null = null
  while (!deps.signal.aborted) {
    try {
      for await (const event of connect(lastEventId, deps.signal)) {
        if (event === 'open') {
          // Data read before the first connection may already be outdated.
          if (lastEventId === '') deps.onGap()
          deps.onLiveness({ state: 'live' })
          failures = 0
          since = null
        } else {
          lastEventId = event.lastEventId
          if (event.type === 'reset') deps.onGap()
          else deps.onEvent(event)
        }
      }
    } catch (error) {
      if (deps.signal.aborted) return
      if (error instanceof ApiFailure && error.status === 401) return deps.onLiveness({ state: 'logged_out' })
    }
    since ??= Date.now()
    deps.onLiveness({ state: 'reconnecting', since })
    await pause(retryDelayMs(failures), deps.signal)
    failures += 1
  }
}

async function* connect(lastEventId: string, outer: AbortSignal): AsyncGenerator<ServerEvent | 'open', void, void> {
  const dead = new AbortController()
  const signal = AbortSignal.any([outer, dead.signal])
  let timer = setTimeout(() => dead.abort(), silenceMs)
  try {
    const headers = { accept: 'text/event-stream', ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }) }
    const response = await open(systemRoutes.events, { headers, signal })
    if (!response.ok || response.body === null) throw toApiFailure(response.status, await response.text())
    yield 'open'
    const parser = createSseParser(lastEventId)
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      clearTimeout(timer)
      timer = setTimeout(() => dead.abort(), silenceMs)
      yield* parser.push(read.value)
    }
  } finally {
    clearTimeout(timer)
    dead.abort()
  }
}

/** Ends early when the browser is online again. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      removeEventListener('online', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    addEventListener('online', done)
    signal.addEventListener('abort', done)
  })
}
