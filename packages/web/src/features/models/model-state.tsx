// The state of a model: a word, how far it is when it comes up, and why not when it failed.
import { useQuery } from '@tanstack/react-query'
import type { LoadFailure, ModelView, OperationView, ReplicaState, ReplicaView } from '@muster/protocol'
import { modelLoadStatusQuery, operationsQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Bar, Pill, type Tone } from '../../components/state.tsx'
import { useNow, When } from '../../components/time.tsx'
import { plural } from '../../format.ts'
import { briefly, type Coming, isComingUp, modelTones, nextTry } from './model-words.pure.ts'
import { useModelAct } from './model-actions.tsx'

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

export function useComing(model: ModelView): Coming | null {
  const isComing = isComingUp(model.state)
  const operations = useQuery(operationsQuery('active')).data
  const operation = operations?.find(
    ({ kind, model: name, total_bytes: total }) => kind === 'model.load' && name === model.name && total > 0,
  )
  const status = useQuery({
    ...modelLoadStatusQuery(model.name),
    enabled: isComing && operations !== undefined && operation === undefined,
  }).data
  if (!isComing) return null
  if (operation !== undefined) return ofOperation(operation)
  if (status === undefined) return null
  return { node: status.node, percent: status.progress, current: status.current_bytes, total: status.total_bytes }
}

function ofOperation({ progress, current_bytes: current, total_bytes: total, nodes }: OperationView): Coming {
  const busy = nodes.find(({ status }) => status !== 'success' && status !== 'skipped')
  return { node: busy?.node_name ?? null, percent: progress, current, total }
}

export function ModelFailure({ model, failure }: { readonly model: ModelView; readonly failure: LoadFailure }) {
  const load = useModelAct('load')
  const isServing = model.state === 'ready'
  const now = useNow()
  return (
    <section
      aria-label="Failure"
      className={`flex flex-col items-start gap-2 rounded-md border p-3 ${isServing ? 'border-wait' : 'border-bad'}`}
    >
      <p className={`font-medium ${isServing ? 'text-wait' : 'text-bad'}`}>
        {isServing ? 'It serves, but another replica could not come up' : 'It could not be loaded'} ({failure.code.replaceAll('_', ' ')})
      </p>
      <pre className="max-h-72 w-full overflow-auto font-mono text-[13px] whitespace-pre-wrap [overflow-wrap:anywhere]">
        {failure.message}
      </pre>
      <p className="text-soft">
        {failure.attempts > 0 && (
          <>
            {plural(failure.attempts, 'try', 'tries')}, the last <When at={failure.at} />.{' '}
          </>
        )}
        {nextTry(failure.next_retry_at, now)}.
      </p>
      <Button isBusy={load.isPending} onClick={() => load.mutate(model.name)}>
        Try again now
      </Button>
    </section>
  )
}

const tones: Readonly<Record<ReplicaState, Tone>> = { starting: 'work', ready: 'good', draining: 'wait', exited: 'idle' }

/** The state of a replica as it was told last, and that its node does not answer where that is so. */
export function ReplicaStateMark({ replica: { state, reachable } }: { readonly replica: ReplicaView }) {
  return (
    <>
      <Pill tone={tones[state]}>{state}</Pill>
      {!reachable && state !== 'exited' && (
        <span className="block">
          <Pill tone="bad" hint="its node does not answer; no request is sent to it">
            unreachable
          </Pill>
        </span>
      )}
    </>
  )
}
