// What whoever looks at the page should know of the page itself: that it is old, or that Muster is newer than it.
import { useQuery } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { useLiveness } from '../api/live-context.tsx'
import { statusQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { useNow } from '../components/time.tsx'
import { staleMs } from './live-dot.tsx'

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
