// One answer, as it comes and as it ended. What a model says is text and nothing else.
import type { ModelName } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { nodesQuery } from '../../api/queries.ts'
import { endingOf, figuresOf } from './answer-figures.ts'
import { ColdProgress } from './cold-progress.tsx'
import type { Answer, Turn } from './conversation.ts'

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
