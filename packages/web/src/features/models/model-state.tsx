// The state of a model and its replicas: a pill, the progress of a load, the last failure.
import { useQuery } from '@tanstack/react-query'
import type { LoadFailure, ModelView, OperationView, ReplicaState, ReplicaView } from '@muster/protocol'
import { modelLoadStatusQuery, operationsQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Bar, Pill, type Tone } from '../../components/state.tsx'
import { useNow, When } from '../../components/time.tsx'
import { plural } from '../../format.ts'
import { firstLine, type LoadProgress, isStarting, modelTones, describeNextTry } from './model-words.pure.ts'
import { useModelAction } from './model-actions.tsx'

export function ModelStateMark({ model, progress }: { readonly model: ModelView; readonly progress: LoadProgress | null }) {
  const { state, failure } = model
  const percent = progress === null || progress.total === 0 ? null : Math.floor(progress.percent)
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

function BriefFailure({ message, nextAt, isServing }: { message: string; nextAt: string | null; isServing: boolean }) {
  const now = useNow()
  return (
    <p className={`max-w-md [overflow-wrap:anywhere] ${isServing ? 'text-wait' : 'text-bad'}`} title={message}>
      {isServing && 'Another replica failed to start: '}
      {firstLine(message)}. <span className="text-soft">{describeNextTry(nextAt, now)}.</span>
    </p>
  )
}

/** The progress of a load: from its operation, which events update, or else from the model's load status. */
export function useLoadProgress(model: ModelView): LoadProgress | null {
  const isActive = isStarting(model.state)
  const operations = useQuery(operationsQuery('active')).data
  const operation = operations?.find(
    ({ kind, model: name, total_bytes: total }) => kind === 'model.load' && name === model.name && total > 0,
  )
  const status = useQuery({
    ...modelLoadStatusQuery(model.name),
    enabled: isActive && operations !== undefined && operation === undefined,
  }).data
  if (!isActive) return null
  if (operation !== undefined) return ofOperation(operation)
  if (status === undefined) return null
  return { node: status.node, percent: status.progress, current: status.current_bytes, total: status.total_bytes }
}

function ofOperation({ progress, current_bytes: current, total_bytes: total, nodes }: OperationView): LoadProgress {
  const busy = nodes.find(({ status }) => status !== 'success' && status !== 'skipped')
  return { node: busy?.node_name ?? null, percent: progress, current, total }
}

export function ModelFailure({ model, failure }: { readonly model: ModelView; readonly failure: LoadFailure }) {
  const load = useModelAction('load')
  const isServing = model.state === 'ready'
  const now = useNow()
  return (
    <section
      aria-label="Failure"
      className={`flex flex-col items-start gap-2 rounded-md border p-3 ${isServing ? 'border-wait' : 'border-bad'}`}
    >
      <p className={`font-medium ${isServing ? 'text-wait' : 'text-bad'}`}>
        {isServing ? 'Serving, but another replica failed to start' : 'Failed to load'} ({failure.code.replaceAll('_', ' ')})
      </p>
      <pre className="max-h-72 w-full overflow-auto font-mono text-[13px] whitespace-pre-wrap [overflow-wrap:anywhere]">
        {failure.message}
      </pre>
      <p className="text-soft">
        {failure.attempts > 0 && (
          <>
            {plural(failure.attempts, 'attempt')}, last <When at={failure.at} />.{' '}
          </>
        )}
        {describeNextTry(failure.next_retry_at, now)}.
      </p>
      <Button isBusy={load.isPending} onClick={() => load.mutate(model.name)}>
        Retry now
      </Button>
    </section>
  )
}

const tones: Readonly<Record<ReplicaState, Tone>> = { starting: 'work', ready: 'good', draining: 'wait', exited: 'idle' }

/** The last reported state of a replica, whether it still holds, and why the replica gets no requests. */
export function ReplicaStateMark({ replica }: { readonly replica: ReplicaView }) {
  const { state, reachable, unknown_since: unknownSince = null, out_of_rotation: out = null } = replica
  return (
    <>
      {unknownSince === null ? (
        <Pill tone={tones[state]}>{state}</Pill>
      ) : (
        <>
          <Pill
            tone="wait"
            hint={`Last reported as ${state}; its node has sent no heartbeat since. Requests are sent to it only while the node is healthy`}
          >
            unknown
          </Pill>
          <span className="block text-soft">
            since <When at={unknownSince} />
          </span>
        </>
      )}
      {!reachable && unknownSince === null && state !== 'exited' && (
        <span className="block">
          <Pill tone="bad" hint="Node unreachable; no requests are routed to this replica">
            unreachable
          </Pill>
        </span>
      )}
      {out !== null && (
        <span className="block">
          <Pill tone="bad">out of rotation</Pill>
          <span className="block max-w-96 text-soft">It {out.reason}.</span>
        </span>
      )}
    </>
  )
}
