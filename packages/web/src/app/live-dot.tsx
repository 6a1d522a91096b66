// Says whether what is shown is true right now.
import { useLiveness } from '../api/live-context.tsx'
import { Pill } from '../components/state-mark.tsx'
import { useNow } from '../components/time.tsx'
import { formatDuration } from '../format/amounts.ts'

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
