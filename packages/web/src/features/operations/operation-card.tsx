// One operation in a list: title, state, progress, and its nodes on demand.
import { formatDuration, type OperationView } from '@muster/protocol'
import { Link } from '@tanstack/react-router'
import { Pill } from '../../components/state.tsx'
import { When } from '../../components/time.tsx'
import { plural } from '../../format.ts'
import { Disclosure, NodeProgressList } from './node-progress-list.tsx'
import { OperationActions } from './operation-actions.tsx'
import { OperationProgress } from './operation-progress.tsx'
import { isActive, markOf, titleOf } from './operation-words.pure.ts'

export function OperationCard({ operation }: { readonly operation: OperationView }) {
  const title = titleOf(operation)
  const isRunning = isActive(operation)
  return (
    <article aria-label={title} data-row="" className="lazy-row flex flex-col gap-2 rounded-md border bg-raised px-4 py-3">
      <header className="flex flex-wrap items-start justify-between gap-x-4 gap-y-1">
        <div className="flex min-w-0 flex-[1_1_16rem] flex-wrap items-baseline gap-x-3">
          <h2 className="min-w-0 font-medium [overflow-wrap:anywhere]">
            <Link to="." search={(before) => ({ ...before, op: operation.id })} className="hover:underline">
              {title}
            </Link>
          </h2>
          <OperationMark operation={operation} />
          <span className="text-[13px] text-soft [overflow-wrap:anywhere]">
            <OperationTimes operation={operation} />
            {operation.requested_by !== '' && `, by ${operation.requested_by}`}
          </span>
        </div>
        <OperationActions operation={operation} />
      </header>
      {isRunning && <OperationProgress operation={operation} />}
      {operation.message !== '' && (
        <p className={`text-[13px] [overflow-wrap:anywhere] ${operation.state === 'failed' ? 'text-bad' : 'text-soft'}`}>
          {operation.message}
        </p>
      )}
      {operation.nodes.length > 0 && (
        <Disclosure label={plural(operation.nodes.length, 'node')} of={title}>
          {() => <NodeProgressList operation={operation} />}
        </Disclosure>
      )}
    </article>
  )
}

export function OperationMark({ operation }: { readonly operation: OperationView }) {
  const { tone, word, sign, hint } = markOf(operation)
  return (
    <Pill tone={tone} sign={sign} hint={hint}>
      {word}
    </Pill>
  )
}

/** When it started; once finished, when and how long it took. */
export function OperationTimes({ operation }: { readonly operation: OperationView }) {
  const { created_at: startedAt, finished_at: finishedAt } = operation
  if (finishedAt === null)
    return (
      <>
        started <When at={startedAt} />
      </>
    )
  return (
    <>
      <When at={finishedAt} />, took {formatDuration(Date.parse(finishedAt) - Date.parse(startedAt))}
    </>
  )
}
