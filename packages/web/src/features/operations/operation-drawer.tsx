// The drawer of one operation on any page, opened by the search parameter `op`.
import { OperationId, type OperationView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { ApiFailure } from '../../api/client.ts'
import { operationHistoryQuery, operationQuery } from '../../api/queries.ts'
import { ShortId } from '../../components/copy.tsx'
import { Dialog, useClose } from '../../components/dialog.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { plural } from '../../format.ts'
import { OperationActions } from './operation-actions.tsx'
import { Disclosure, NodeProgressList, OperationMark, OperationProgress, OperationTimes } from './operation-progress.tsx'
import { titleOf } from './operation-words.pure.ts'

export function OperationDrawer() {
  const { op } = useSearch({ strict: false })
  if (op === undefined || op === '') return null
  const id = OperationId.safeParse(op)
  return id.success ? <OperationDialog key={op} id={id.data} /> : <UnknownOperation id={op} />
}

function OperationDialog({ id }: { readonly id: OperationId }) {
  const query = useQuery(operationQuery(id))
  const close = useClose('op')
  if (query.error instanceof ApiFailure && query.error.status === 404 && query.data === undefined) return <UnknownOperation id={id} />
  return (
    <Dialog title={query.data === undefined ? 'Operation' : drawerTitle(query.data)} place="drawer" onClose={close}>
      <Loaded query={query} what="operation">
        {(operation) => <Contents operation={operation} />}
      </Loaded>
    </Dialog>
  )
}

function UnknownOperation({ id }: { readonly id: string }) {
  return (
    <Dialog title="Operation not found" place="drawer" onClose={useClose('op')}>
      <Empty title="This operation does not exist.">
        <p className="[overflow-wrap:anywhere]">
          <span className="font-mono">{id}</span> is unknown, or has been deleted from the history (after 30 days, or
          <span className="font-mono"> --history-retention</span>).
        </p>
        <Link to="/operations" className="underline">
          All operations
        </Link>
      </Empty>
    </Dialog>
  )
}

function drawerTitle(operation: OperationView): string {
  const startedAt = new Date(operation.created_at)
  const isToday = startedAt.toDateString() === new Date().toDateString()
  const time = startedAt.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
  const by = operation.requested_by === '' ? '' : ` by ${operation.requested_by}`
  return `${titleOf(operation)} · started ${isToday ? '' : `${startedAt.toLocaleDateString()} `}${time}${by}`
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
        <Disclosure label={plural(nodes.length, 'node')} of={titleOf(operation)} isInitiallyOpen>
          {() => <NodeProgressList operation={operation} />}
        </Disclosure>
      )}
      {operation.backend !== null && (
        <Disclosure label="History" of={titleOf(operation)}>
          {() => <OperationHistory operation={operation} />}
        </Disclosure>
      )}
      <p className="text-[13px] text-soft">
        ID <ShortId id={operation.id} what="operation ID" />
      </p>
    </>
  )
}

/** The steps of its intents, read when it is opened. */
function OperationHistory({ operation }: { readonly operation: OperationView }) {
  const names = new Map(operation.nodes.map((node) => [node.node_id, node.node_name]))
  return (
    <Loaded query={useQuery(operationHistoryQuery(operation.id))} what="history">
      {(events) => (
        <Table label="History" columns={['Time', 'Node', 'Step', 'Details']}>
          {events.map((event, index) => (
            <Row key={index}>
              <Cell className="whitespace-nowrap">{new Date(event.at).toLocaleTimeString()}</Cell>
              <Cell>{names.get(event.node_id) ?? event.node_id}</Cell>
              <Cell>{event.type}</Cell>
              <Cell className="[overflow-wrap:anywhere] text-soft">{detailText(event.detail)}</Cell>
            </Row>
          ))}
        </Table>
      )}
    </Loaded>
  )
}

const detailText = (detail: Readonly<Record<string, unknown>>): string =>
  Object.entries(detail)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
