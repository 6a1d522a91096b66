// Says whether what is shown is true right now.
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { useLiveness } from '../api/live-context.tsx'
import { statusQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { Pill } from '../components/state.tsx'
import { useNow } from '../components/time.tsx'
import { formatDuration } from '../format.ts'

/** After that long nobody should take it for the present. */
export const staleMs = 30_000

export function LiveDot() {
  const liveness = useLiveness()
  const now = useNow()
  switch (liveness.state) {
    case 'live':
      return (
        <Pill tone="good" sign="●" hint="What you see is kept up to date by the controller">
          live
        </Pill>
      )
    case 'connecting':
      return (
        <Pill tone="idle" sign="○">
          connecting
        </Pill>
      )
    case 'logged_out':
      return (
        <Pill tone="bad" sign="○">
          logged out
        </Pill>
      )
    case 'reconnecting': {
      const age = Math.max(0, now - liveness.since)
      return (
        <Pill
          tone={age > staleMs ? 'bad' : 'wait'}
          sign="◌"
          hint={`What you see was true ${formatDuration(age)} ago; this page connects again by itself`}
        >
          {age > staleMs ? `stale since ${new Date(liveness.since).toLocaleTimeString()}` : `reconnecting, ${formatDuration(age)}`}
        </Pill>
      )
    }
    default:
      return liveness satisfies never
  }
}

/** Over the page, at its foot: nothing of it moves. */
export function StaleNotice() {
  const liveness = useLiveness()
  const now = useNow()
  const version = useQuery(statusQuery).data?.version
  const [first, setFirst] = useState(version)
  if (first === undefined && version !== undefined) setFirst(version)
  if (liveness.state === 'reconnecting' && now - liveness.since > staleMs)
    return (
      <Note>
        The controller has not answered since {new Date(liveness.since).toLocaleTimeString()}. What you see was true then; it is asked again
        every few seconds.
      </Note>
    )
  if (version !== first)
    return (
      <Note>
        Muster is {version} now, and this page is older.{' '}
        <Button className="ml-2" onClick={() => location.reload()}>
          Reload
        </Button>
      </Note>
    )
  return null
}

function Note({ children }: { readonly children: ReactNode }) {
  return (
    <p
      role="status"
      className="fixed bottom-4 left-4 z-40 max-w-[min(30rem,calc(100vw-2rem))] rounded-md border bg-raised px-3 py-2 text-wait shadow-lg"
    >
      {children}
    </p>
  )
}
