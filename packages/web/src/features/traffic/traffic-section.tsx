// The last hour. Where nothing was asked, how to ask the first question.
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

// It brings the library that draws, which the first page shall not wait for.
const TrafficCharts = lazy(async () => ({ default: (await import('./traffic-charts.tsx')).TrafficCharts }))

/** The charts draw every ten seconds; a caption stands above each. */
const placeHeight = chartHeight + 23
const grid = 'grid gap-4 sm:grid-cols-2'

export function TrafficSection({ buckets, models }: { readonly buckets: readonly StatsBucket[]; readonly models: readonly ModelView[] }) {
  const controllers = useQuery(statusQuery).data?.controllers ?? []
  const now = Math.floor(useNow() / 10_000) * 10_000
  if (buckets.length === 0) return <FirstQuestion models={models} />
  const since = Math.min(now, ...controllers.map(({ started_at: at }) => Date.parse(at)))
  return (
    <Section title="Traffic of the last hour">
      <div className={grid}>
        <Suspense fallback={<Places />}>
          <TrafficCharts buckets={buckets} since={since} now={now} />
        </Suspense>
      </div>
    </Section>
  )
}

const Places = () => [1, 2, 3, 4].map((place) => <div key={place} style={{ height: placeHeight }} />)

function FirstQuestion({ models }: { readonly models: readonly ModelView[] }) {
  const model = models.find(({ state }) => state === 'ready') ?? models[0]
  if (model === undefined)
    return (
      <Section title="Nothing can be asked yet">
        <p>
          There is no model. Take one from{' '}
          <Link to="/models" search={{ tab: 'gallery' }} className="underline">
            the gallery
          </Link>
          , or{' '}
          <Link to="/models/new" className="underline">
            configure one of your own
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
    <Section title="Nothing was asked in the last hour">
      <p>
        Ask {model.name} in the{' '}
        <Link to="/playground" search={{ model: model.name }} className="underline">
          playground
        </Link>
        , or from a terminal:
      </p>
      <CopyBlock label="first question as curl" text={text} />
    </Section>
  )
}
