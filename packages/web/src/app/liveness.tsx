// Shows whether the page is up to date: a pill in the header, and a notice when it is stale or older than the controller.
import { formatDuration } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { useLiveness } from '../api/live-context.tsx'
import { statusQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { Pill } from '../components/state.tsx'
import { useNow } from '../components/time.tsx'

/** After this time without connection the page counts as stale. */
const staleMs = 30_000

const marks = {
  live: { tone: 'good', sign: '●', word: 'live', hint: 'Live updates' },
  connecting: { tone: 'idle', sign: '○', word: 'connecting' },
  logged_out: { tone: 'bad', sign: '○', word: 'logged out' },
} as const

export function LiveDot() {
  const liveness = useLiveness()
  const now = useNow()
  if (liveness.state !== 'reconnecting') {
    const { word, ...mark } = marks[liveness.state]
    return <Pill {...mark}>{word}</Pill>
  }
  const age = Math.max(0, now - liveness.since)
  return (
    <Pill tone={age > staleMs ? 'bad' : 'wait'} sign="◌" hint={`Last update ${formatDuration(age)} ago; reconnecting automatically`}>
      {age > staleMs ? `stale since ${new Date(liveness.since).toLocaleTimeString()}` : `reconnecting, ${formatDuration(age)}`}
    </Pill>
  )
}

/** An overlay at the bottom, so that the page does not move. */
export function StaleNotice() {
  const liveness = useLiveness()
  const now = useNow()
  const version = useQuery(statusQuery).data?.version
  const [first, setFirst] = useState(version)
  if (first === undefined && version !== undefined) setFirst(version)
  if (liveness.state === 'reconnecting' && now - liveness.since > staleMs)
    return (
      <BottomNotice>
        No connection to the controller since {new Date(liveness.since).toLocaleTimeString()}. This page shows the state of that time and
        reconnects automatically.
      </BottomNotice>
    )
  if (version !== first)
    return (
      <BottomNotice>
        Muster was upgraded to {version}. Reload to update this page.{' '}
        <Button className="ml-2" onClick={() => location.reload()}>
          Reload
        </Button>
      </BottomNotice>
    )
  return null
}

function BottomNotice({ children }: { readonly children: ReactNode }) {
  return (
    <p
      role="status"
      className="fixed bottom-4 left-4 z-40 max-w-[min(30rem,calc(100vw-2rem))] rounded-md border bg-raised px-3 py-2 text-wait shadow-lg"
    >
      {children}
    </p>
  )
}
