// One answer, as it comes and as it ended. What a model says is text and nothing else.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ModelName } from '@muster/protocol'
import { modelLoadStatusQuery, modelsQuery, nodesQuery, operationsQuery } from '../../api/queries.ts'
import { Bar } from '../../components/state.tsx'
import { useNow } from '../../components/time.tsx'
import { formatBytesOf, formatDuration } from '../../format.ts'
import { endingOf, figuresOf } from './playground-words.pure.ts'
import { coldView, type ColdView, phases, phaseWords } from './model-loading.pure.ts'
import type { Answer, Turn } from './conversation.pure.ts'

export function AnswerView({ turn }: { readonly turn: Turn }) {
  const { answer } = turn
  switch (answer.state) {
    case 'asking':
    case 'loading':
      // The name is one that the server listed, or one that it will refuse.
      return <ColdProgress name={turn.model as ModelName} answer={answer} />
    case 'answering':
      return (
        <>
          <Words text={answer.text} isGrowing />
          <p className="min-h-5 text-[13px] text-work">answering …</p>
        </>
      )
    case 'refused':
      return <Refused model={turn.model} answer={answer} />
    default:
      return <Ended answer={answer} />
  }
}

const Words = ({ text, isGrowing = false }: { readonly text: string; readonly isGrowing?: boolean }) => (
  <div data-answer="" className="min-h-5 whitespace-pre-wrap [overflow-wrap:anywhere]">
    {text}
    {isGrowing && (
      <span aria-hidden className="text-work">
        ▍
      </span>
    )}
  </div>
)

function Ended({ answer }: { readonly answer: Extract<Answer, { readonly endedAt: number }> }) {
  const { nodeId } = answer.timing
  const node = useQuery(nodesQuery).data?.find(({ id }) => id === nodeId)
  const ending = endingOf(answer)
  return (
    <>
      {(answer.text !== '' || answer.state === 'complete') && <Words text={answer.text === '' ? '(an empty answer)' : answer.text} />}
      {ending !== null && (
        <p
          role={answer.state === 'cut' ? 'alert' : 'note'}
          className={`[overflow-wrap:anywhere] ${answer.state === 'cut' ? 'text-bad' : 'text-wait'}`}
        >
          <span aria-hidden>{answer.state === 'cut' ? '✕ ' : '◔ '}</span>
          {ending}
        </p>
      )}
      <p aria-label="Figures" role="note" className="flex min-h-5 flex-wrap gap-x-3 text-[13px] text-soft">
        {figuresOf(answer, node?.name ?? nodeId).map((figure) => (
          <span key={figure} className="max-w-full truncate" title={figure}>
            {figure}
          </span>
        ))}
      </p>
    </>
  )
}

function Refused({ model, answer }: { readonly model: string; readonly answer: Extract<Answer, { readonly state: 'refused' }> }) {
  return (
    <div role="alert" className="flex flex-col items-start gap-1 rounded-md border border-bad p-3">
      <p className="font-medium text-bad">There is no answer.</p>
      <p className="[overflow-wrap:anywhere]">{answer.message}</p>
      <WhatNow model={model} code={answer.code} />
    </div>
  )
}

const link = 'underline underline-offset-2 hover:no-underline'

function WhatNow({ model, code }: { readonly model: string; readonly code: string }) {
  if (code === 'model_not_found')
    return (
      <Link to="/models" className={link}>
        See which models there are
      </Link>
    )
  const isPlace = code === 'no_capacity'
  if (!isPlace && code !== 'model_load_failed') return null
  return (
    <Link to="/models/$name" params={{ name: model }} search={isPlace ? { tab: 'placement' } : {}} className={link}>
      {isPlace
        ? `See which nodes could run ${model}, and why not the others`
        : `Open ${model}: its log, its configuration, and load it again`}
    </Link>
  )
}

type Waiting = Extract<Answer, { readonly state: 'asking' | 'loading' }>

function ColdProgress({ name, answer }: { readonly name: ModelName; readonly answer: Waiting }) {
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
