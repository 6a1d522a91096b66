// In the place of an answer, while its model comes up: which phase it is in, and how far.
import type { ModelName } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { modelLoadStatusQuery, modelsQuery, operationsQuery } from '../../api/queries.ts'
import { Bar } from '../../components/bar.tsx'
import { useNow } from '../../components/time.tsx'
import { formatBytesOf, formatDuration } from '../../format/amounts.ts'
import { coldView, phases, phaseWords, type ColdView } from './cold-model.ts'
import type { Answer } from './conversation.ts'

type Waiting = Extract<Answer, { readonly state: 'asking' | 'loading' }>

export function ColdProgress({ name, answer }: { readonly name: ModelName; readonly answer: Waiting }) {
  const model = useQuery(modelsQuery).data?.find((each) => each.name === name)
  const operations = useQuery(operationsQuery('active')).data ?? []
  const isCold = answer.loading !== null || model?.state !== 'ready'
  const status = useQuery({ ...modelLoadStatusQuery(name), enabled: isCold }).data
  const waitedMs = useNow() - answer.askedAt
  if (!isCold) return <p className="min-h-5 text-soft">Waiting for the first word …</p>
  const view = coldView({ model, told: [status, answer.loading], operations })
  return (
    <div role="group" aria-label={`Loading ${name}`} className="flex flex-col gap-2 rounded-md border p-3">
      <p className="[overflow-wrap:anywhere]">
        <span className="text-work">{name} is not loaded yet: </span>
        {phaseWords[view.phase]}
        {view.node !== null && ` on ${view.node}`}. It is answered as soon as the model is up.
      </p>
      <Phases view={view} />
      <Bar percent={view.progress?.percent ?? 0} tone="work" label={`Progress of ${name}`} />
      {/* Its place is kept: nothing moves when bytes become known. */}
      <p className="flex min-h-5 flex-wrap gap-x-3 text-[13px] text-soft">
        {view.progress !== null && (
          <>
            <span>{Math.floor(view.progress.percent)} %</span>
            <span>{formatBytesOf(view.progress.current, view.progress.total)}</span>
          </>
        )}
        {view.etaSeconds !== null && <span>about {formatDuration(view.etaSeconds * 1_000)} left</span>}
        <span>waited {formatDuration(waitedMs)}</span>
      </p>
    </div>
  )
}

function Phases({ view }: { readonly view: ColdView }) {
  const at = phases.indexOf(view.phase)
  return (
    <ol className="flex flex-wrap gap-x-2 gap-y-1 text-[13px]">
      {phases.map((phase, index) => (
        <li
          key={phase}
          aria-current={index === at ? 'step' : undefined}
          className={index === at ? 'font-medium text-work' : index < at ? 'text-good' : 'text-soft'}
        >
          <span aria-hidden>{index < at ? '✓ ' : index === at ? '↓ ' : '○ '}</span>
          {phase}
          {index < at && <span className="sr-only"> (done)</span>}
        </li>
      ))}
    </ol>
  )
}
