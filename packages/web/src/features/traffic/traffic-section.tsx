// Traffic of the last hour. Without traffic, how to send the first request.
import type { ModelView, StatsBucket } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { statusQuery } from '../../api/queries.ts'
import { CopyBlock } from '../../components/copy.tsx'
import { Section } from '../../components/page.tsx'
import { useNow } from '../../components/time.tsx'
import { isLoopback } from '../../format.ts'
import { curlSample } from '../playground/code-samples.pure.ts'
import { chartHeight } from './traffic.pure.ts'

// Lazy, so that the first page does not wait for the chart library.
const TrafficCharts = lazy(async () => ({ default: (await import('./traffic-charts.tsx')).TrafficCharts }))

/** A chart with its caption. */
const placeholderHeight = chartHeight + 23
const grid = 'grid gap-4 sm:grid-cols-2'

export function TrafficSection({ buckets, models }: { readonly buckets: readonly StatsBucket[]; readonly models: readonly ModelView[] }) {
  const controllers = useQuery(statusQuery).data?.controllers ?? []
  const now = Math.floor(useNow() / 10_000) * 10_000
  if (buckets.length === 0) return <FirstRequest models={models} />
  const since = Math.min(now, ...controllers.map(({ started_at: at }) => Date.parse(at)))
  return (
    <Section title="Traffic in the last hour">
      <div className={grid}>
        <Suspense fallback={<Placeholders />}>
          <TrafficCharts buckets={buckets} since={since} now={now} />
        </Suspense>
      </div>
    </Section>
  )
}

const Placeholders = () => [1, 2, 3, 4].map((chart) => <div key={chart} style={{ height: placeholderHeight }} />)

function FirstRequest({ models }: { readonly models: readonly ModelView[] }) {
  const model = models.find(({ state }) => state === 'ready') ?? models[0]
  if (model === undefined)
    return (
      <Section title="No models yet">
        <p>
          Add one from{' '}
          <Link to="/models" search={{ tab: 'gallery' }} className="underline">
            the gallery
          </Link>
          , or{' '}
          <Link to="/models/new" className="underline">
            configure your own
          </Link>
          .
        </p>
      </Section>
    )
  const text = curlSample({
    origin: location.origin,
    isKeyNeeded: !isLoopback(location.hostname),
    model: model.name,
    messages: [{ role: 'user', content: 'What is the capital of France?' }],
    parameters: {},
  })
  return (
    <Section title="No requests in the last hour">
      <p>
        Send {model.name} a message in the{' '}
        <Link to="/playground" search={{ model: model.name }} className="underline">
          playground
        </Link>
        , or from a terminal:
      </p>
      <CopyBlock label="first request as curl" text={text} />
    </Section>
  )
}
