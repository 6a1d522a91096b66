// The state of a model: a word, how far it is when it comes up, and why not when it failed.
import type { ModelView } from '@muster/protocol'
import { Bar } from '../../components/bar.tsx'
import { Pill } from '../../components/state-mark.tsx'
import { useNow } from '../../components/time.tsx'
import { briefly, modelTones, nextTry, type Coming } from './model-words.ts'

export function ModelStateMark({ model, coming }: { readonly model: ModelView; readonly coming: Coming | null }) {
  const { state, failure } = model
  const percent = coming === null || coming.total === 0 ? null : Math.floor(coming.percent)
  return (
    <div className="flex min-w-44 flex-col gap-1">
      <div className="flex items-center gap-2">
        <Pill tone={modelTones[state]}>{state}</Pill>
        {percent !== null && <span className="text-soft">{percent} %</span>}
      </div>
      {percent !== null && <Bar percent={percent} label={`${model.name} ${state}`} tone="work" />}
      {failure !== null && <BriefFailure message={failure.message} nextAt={failure.next_retry_at} isServing={state === 'ready'} />}
    </div>
  )
}

function BriefFailure({
  message,
  nextAt,
  isServing,
}: {
  readonly message: string
  readonly nextAt: string | null
  readonly isServing: boolean
}) {
  const now = useNow()
  return (
    <p className={`max-w-md [overflow-wrap:anywhere] ${isServing ? 'text-wait' : 'text-bad'}`} title={message}>
      {isServing && 'Another replica could not come up: '}
      {briefly(message)}. <span className="text-soft">{nextTry(nextAt, now)}.</span>
    </p>
  )
}
