// One operation in a list: what it is, how far it is, and its nodes on demand. Other pages show it too.
import type { OperationView } from '@muster/protocol'
import { Link } from '@tanstack/react-router'
import { Pill } from '../../components/state.tsx'
import { When } from '../../components/time.tsx'
import { formatDuration, plural } from '../../format.ts'
import { Disclosure, NodeProgressList } from './node-progress-list.tsx'
import { OperationActions } from './operation-actions.tsx'
import { OperationProgress } from './operation-progress.tsx'
import { isActive, markOf, titleOf } from './operation-words.pure.ts'

export function OperationCard({ operation }: { readonly operation: OperationView }) {
  const title = titleOf(operation)
  const isOpen = isActive(operation)
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
      {isOpen && <OperationProgress operation={operation} />}
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
    <Pill tone={tone} {...(sign === undefined ? {} : { sign })} {...(hint === undefined ? {} : { hint })}>
      {word}
    </Pill>
  )
}

/** When it began; how long it took once it is over. */
export function OperationTimes({ operation }: { readonly operation: OperationView }) {
  const { created_at: began, finished_at: ended } = operation
  if (ended === null)
    return (
      <>
        started <When at={began} />
      </>
    )
  return (
    <>
      <When at={ended} />, took {formatDuration(Date.parse(ended) - Date.parse(began))}
    </>
  )
}
