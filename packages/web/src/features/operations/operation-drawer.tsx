// One operation above whatever page: `op` of the address.
import { OperationId, type OperationView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { ApiFailure } from '../../api/client.ts'
import { operationQuery } from '../../api/queries.ts'
import { ShortId } from '../../components/copy.tsx'
import { Dialog, useClose } from '../../components/dialog.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { plural } from '../../format.ts'
import { Disclosure, NodeProgressList } from './node-progress-list.tsx'
import { OperationActions } from './operation-actions.tsx'
import { OperationMark, OperationTimes } from './operation-card.tsx'
import { OperationProgress } from './operation-progress.tsx'
import { titleOf } from './operation-words.pure.ts'

export function OperationDrawer() {
  const { op } = useSearch({ strict: false })
  if (op === undefined || op === '') return null
  const id = OperationId.safeParse(op)
  return id.success ? <Known key={op} id={id.data} /> : <Unknown id={op} />
}

function Known({ id }: { readonly id: OperationId }) {
  const query = useQuery(operationQuery(id))
  const close = useClose('op')
  if (query.error instanceof ApiFailure && query.error.status === 404 && query.data === undefined) return <Unknown id={id} />
  return (
    <Dialog title={query.data === undefined ? 'Operation' : drawerTitle(query.data)} place="drawer" onClose={close}>
      <Loaded query={query} what="the operation">
        {(operation) => <Contents operation={operation} />}
      </Loaded>
    </Dialog>
  )
}

function Unknown({ id }: { readonly id: string }) {
  return (
    <Dialog title="No such operation" place="drawer" onClose={useClose('op')}>
      <Empty title="Muster knows no such operation.">
        <p className="[overflow-wrap:anywhere]">
          <span className="font-mono">{id}</span> never was one, or it ended so long ago that it is forgotten (after 30 days, unless
          <span className="font-mono"> --history-retention</span> says otherwise).
        </p>
        <Link to="/operations" className="underline">
          All operations
        </Link>
      </Empty>
    </Dialog>
  )
}

function drawerTitle(operation: OperationView): string {
  const began = new Date(operation.created_at)
  const isToday = began.toDateString() === new Date().toDateString()
  const time = began.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
  const by = operation.requested_by === '' ? '' : ` by ${operation.requested_by}`
  return `${titleOf(operation)} · started ${isToday ? '' : `${began.toLocaleDateString()} `}${time}${by}`
}

function Contents({ operation }: { readonly operation: OperationView }) {
  const { nodes, message, state } = operation
  return (
    <>
      <div className="flex min-h-7 shrink-0 flex-wrap items-start justify-between gap-x-4 gap-y-2">
        <p className="flex min-w-0 flex-wrap items-baseline gap-x-3">
          <OperationMark operation={operation} />
          <span className="text-[13px] text-soft">
            <OperationTimes operation={operation} />
          </span>
        </p>
        <OperationActions operation={operation} />
      </div>
      <OperationProgress operation={operation} />
      {message !== '' && <p className={`[overflow-wrap:anywhere] ${state === 'failed' ? 'text-bad' : 'text-soft'}`}>{message}</p>}
      {nodes.length > 0 && (
        <Disclosure label={plural(nodes.length, 'node')} of={titleOf(operation)} isOpenAtFirst>
          {() => <NodeProgressList operation={operation} />}
        </Disclosure>
      )}
      <p className="text-[13px] text-soft">
        Id <ShortId id={operation.id} what="id of the operation" />
      </p>
    </>
  )
}
