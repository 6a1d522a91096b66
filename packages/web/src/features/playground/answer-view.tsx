// One response of a model, while it loads, streams, and after its end. It is rendered as plain text.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { formatBytesOf, formatDuration, type ModelName } from '@muster/protocol'
import { modelLoadStatusQuery, modelsQuery, nodesQuery, operationsQuery } from '../../api/queries.ts'
import { Bar } from '../../components/state.tsx'
import { useNow } from '../../components/time.tsx'
import { endingOf, figuresOf } from './playground-words.pure.ts'
import { loadingView, type LoadingView, phases, phaseWords } from './model-loading.pure.ts'
import type { Answer, Turn } from './conversation.pure.ts'

export function AnswerView({ turn }: { readonly turn: Turn }) {
  const { answer } = turn
  switch (answer.state) {
    case 'sending':
    case 'loading':
      // The server listed this name, or will reject it.
      return <ModelLoading name={turn.model as ModelName} answer={answer} />
    case 'answering':
      return (
        <>
          <ResponseText text={answer.text} isStreaming />
          <p className="min-h-5 text-[13px] text-work">Generating…</p>
        </>
      )
    case 'refused':
      return <Refused model={turn.model} answer={answer} />
    default:
      return <EndedResponse answer={answer} />
  }
}

const ResponseText = ({ text, isStreaming = false }: { readonly text: string; readonly isStreaming?: boolean }) => (
  <div data-answer="" className="min-h-5 whitespace-pre-wrap [overflow-wrap:anywhere]">
    {text}
    {isStreaming && (
      <span aria-hidden className="text-work">
        ▍
      </span>
    )}
  </div>
)

function EndedResponse({ answer }: { readonly answer: Extract<Answer, { readonly endedAt: number }> }) {
  const { nodeId } = answer.timing
  const node = useQuery(nodesQuery).data?.find(({ id }) => id === nodeId)
  const ending = endingOf(answer)
  return (
    <>
      {(answer.text !== '' || answer.state === 'complete') && <ResponseText text={answer.text === '' ? '(empty response)' : answer.text} />}
      {ending !== null && (
        <p
          role={answer.state === 'interrupted' ? 'alert' : 'note'}
          className={`[overflow-wrap:anywhere] ${answer.state === 'interrupted' ? 'text-bad' : 'text-wait'}`}
        >
          <span aria-hidden>{answer.state === 'interrupted' ? '✕ ' : '◔ '}</span>
          {ending}
        </p>
      )}
      <p aria-label="Statistics" role="note" className="flex min-h-5 flex-wrap gap-x-3 text-[13px] text-soft">
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
      <p className="font-medium text-bad">Request failed</p>
      <p className="[overflow-wrap:anywhere]">{answer.message}</p>
      <NextStep model={model} code={answer.code} />
    </div>
  )
}

const link = 'underline underline-offset-2 hover:no-underline'

function NextStep({ model, code }: { readonly model: string; readonly code: string }) {
  if (code === 'model_not_found')
    return (
      <Link to="/models" className={link}>
        View all models
      </Link>
    )
  const isPlacement = code === 'no_capacity'
  if (!isPlacement && code !== 'model_load_failed') return null
  return (
    <Link to="/models/$name" params={{ name: model }} search={isPlacement ? { tab: 'placement' } : {}} className={link}>
      {isPlacement ? `View placement of ${model}` : `Open ${model}`}
    </Link>
  )
}

type PendingAnswer = Extract<Answer, { readonly state: 'sending' | 'loading' }>

function ModelLoading({ name, answer }: { readonly name: ModelName; readonly answer: PendingAnswer }) {
  const model = useQuery(modelsQuery).data?.find((each) => each.name === name)
  const operations = useQuery(operationsQuery('active')).data ?? []
  const isLoading = answer.loading !== null || model?.state !== 'ready'
  const status = useQuery({ ...modelLoadStatusQuery(name), enabled: isLoading }).data
  const waitedMs = useNow() - answer.submittedAt
  if (!isLoading) return <p className="min-h-5 text-soft">Waiting for the first token…</p>
  const view = loadingView({ model, reports: [status, answer.loading], operations })
  return (
    <div role="group" aria-label={`Loading ${name}`} className="flex flex-col gap-2 rounded-md border p-3">
      <p className="[overflow-wrap:anywhere]">
        <span className="text-work">{name} is not loaded yet: </span>
        {phaseWords[view.phase]}
        {view.node !== null && ` on ${view.node}`}. The message is sent as soon as the model is ready.
      </p>
      <Phases view={view} />
      <Bar percent={view.progress?.percent ?? 0} tone="work" label={`Loading progress of ${name}`} />
      {/* Keeps its height while empty. */}
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

function Phases({ view }: { readonly view: LoadingView }) {
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
