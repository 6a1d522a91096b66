// Operations on every page: the strip in the header with the running operation, or the one that just ended, and the drawer of
// one operation, which the search parameter `op` opens.
import { OperationId, type OperationView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState } from 'react'
import { ApiFailure } from '../../api/client.ts'
import { operationHistoryQuery, operationQuery, operationsQuery } from '../../api/queries.ts'
import { ShortId } from '../../components/copy.tsx'
import { Dialog, useClose } from '../../components/dialog.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Bar, toneSign, toneText } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { plural } from '../../format.ts'
import { OperationActions } from './operation-actions.tsx'
import {
  Disclosure,
  DisclosureButton,
  NodeProgressList,
  OperationMark,
  OperationProgress,
  OperationTimes,
  useJustEnded,
  useTimeLeft,
} from './operation-progress.tsx'
import { foremost, isActive, markOf, nodesDone, percentText, titleOf } from './operation-words.pure.ts'

export function OperationStrip() {
  const active = useQuery(operationsQuery('active')).data ?? []
  const ended = useJustEnded()
  const operation = foremost(active) ?? ended
  return (
    <section aria-label="Running operations" className="flex h-10 min-w-0 items-center gap-2">
      {operation === null ? (
        <p className="truncate text-soft">No operations running</p>
      ) : (
        <StripOperation key={operation.id} operation={operation} others={active.filter(({ id }) => id !== operation.id).length} />
      )}
      {ended !== null && operation !== null && ended.id !== operation.id && <JustEnded operation={ended} />}
    </section>
  )
}

function StripOperation({ operation, others }: { readonly operation: OperationView; readonly others: number }) {
  const mark = markOf(operation)
  const title = titleOf(operation)
  return (
    <>
      <Link
        to="."
        search={(before) => ({ ...before, op: operation.id })}
        className="flex min-w-0 flex-col gap-0.5 rounded-md hover:underline"
      >
        <span className="flex min-w-0 items-baseline gap-1.5">
          <span aria-hidden className={toneText[mark.tone]}>
            {mark.sign ?? toneSign[mark.tone]}
          </span>
          <span className="truncate">
            {title}
            <StripFigures operation={operation} />
          </span>
          {isActive(operation) && <span className="sr-only">: {mark.word}</span>}
        </span>
        <Bar percent={operation.progress} label={`${title}: progress`} tone={mark.tone} />
      </Link>
      {operation.nodes.length > 1 && <StripNodes operation={operation} />}
      {others > 0 && (
        <Link to="/operations" className="whitespace-nowrap text-soft hover:text-ink max-sm:hidden">
          +{others} more
        </Link>
      )}
    </>
  )
}

function StripFigures({ operation }: { readonly operation: OperationView }) {
  const { timeLeft } = useTimeLeft(operation)
  if (!isActive(operation)) return ` · ${markOf(operation).word.toLowerCase()}`
  const done = nodesDone(operation.nodes)
  return [done === '' ? '' : ` → ${done}`, percentText(operation.progress), timeLeft]
    .filter((part) => part !== '')
    .join(' · ')
    .replace(/^(?! →)/, ' · ')
}

function JustEnded({ operation }: { readonly operation: OperationView }) {
  const { tone, word, sign } = markOf(operation)
  return (
    <Link
      to="."
      search={(before) => ({ ...before, op: operation.id })}
      className={`hidden truncate hover:underline md:block ${toneText[tone]}`}
    >
      <span aria-hidden>{sign ?? toneSign[tone]} </span>
      {titleOf(operation)}: {word.toLowerCase()}
    </Link>
  )
}

/** A popup with the nodes; Escape and a click elsewhere close it. */
function StripNodes({ operation }: { readonly operation: OperationView }) {
  const [isOpen, setOpen] = useState(false)
  const container = useRef<HTMLDivElement>(null)
  const id = useId()
  useEffect(() => {
    if (!isOpen) return undefined
    const stop = new AbortController()
    const { signal } = stop
    document.addEventListener('keydown', ({ key }) => key === 'Escape' && setOpen(false), { signal })
    document.addEventListener(
      'pointerdown',
      ({ target }) => target instanceof Node && container.current?.contains(target) === false && setOpen(false),
      { signal },
    )
    return () => stop.abort()
  }, [isOpen])
  return (
    <div ref={container} className="shrink-0 sm:relative">
      <DisclosureButton
        label={plural(operation.nodes.length, 'node')}
        of={titleOf(operation)}
        isOpen={isOpen}
        controls={id}
        onToggle={() => setOpen(!isOpen)}
      />
      <div
        id={id}
        hidden={!isOpen}
        className="absolute top-full z-20 mt-1 max-h-[70dvh] overflow-y-auto rounded-md border bg-raised p-2 shadow-lg max-sm:inset-x-2 sm:left-0 sm:w-[34rem]"
      >
        {isOpen && <NodeProgressList operation={operation} />}
      </div>
    </div>
  )
}

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
