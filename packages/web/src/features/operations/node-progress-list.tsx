// The nodes of an operation: one row each, in a stable order.
import { Link } from '@tanstack/react-router'
import { type ReactNode, useId, useState } from 'react'
import { formatBytes, formatBytesOf, type OperationNode, type OperationView } from '@muster/protocol'
import { Button } from '../../components/button.tsx'
import { Bar, Pill } from '../../components/state.tsx'
import { useNow } from '../../components/time.tsx'
import { useRetry } from './operation-actions.tsx'
import { canRetry, nodeMarkOf, noteOf, percentText, phaseText, ringsOf } from './operation-words.pure.ts'

export function NodeProgressList({ operation }: { readonly operation: OperationView }) {
  return (
    <div className="flex flex-col gap-3">
      {ringsOf(operation.nodes).map(({ title, progress, nodes }) => (
        <section key={title} aria-label={title === '' ? 'Nodes' : title}>
          {title !== '' && (
            <h3 className="mb-1 flex gap-2 text-[13px] font-medium">
              {title} <span className="font-normal text-soft">{progress}</span>
            </h3>
          )}
          <ul className="divide-y rounded-md border bg-raised">
            {nodes.map((node) => (
              <NodeRow key={node.node_id} node={node} operation={operation} />
            ))}
          </ul>
        </section>
      ))}
    </div>
  )
}

function NodeRow({ node, operation }: { readonly node: OperationNode; readonly operation: OperationView }) {
  const { node_name: name, node_id: id, percentage, status } = node
  const mark = nodeMarkOf(node, operation.kind)
  const hasProgress = status !== 'skipped' && !(status === 'cancelled' && percentage === 0)
  return (
    <li aria-label={name} data-status={status} className="lazy-row flex flex-col gap-1 px-3 py-2 text-[13px]">
      <div className="flex flex-wrap items-baseline gap-x-3">
        <Link to="/nodes/$id" params={{ id }} className="min-w-24 flex-[1_1_6rem] truncate font-medium hover:underline" title={name}>
          {name}
        </Link>
        <span className="w-28 shrink-0">
          <Pill tone={mark.tone} sign={mark.sign} hint={mark.hint}>
            {mark.word}
          </Pill>
        </span>
        <span className="w-40 shrink-0 text-soft max-sm:order-1">{phaseText(node)}</span>
        <span className="flex-[1_0_7rem] text-right whitespace-nowrap text-soft max-sm:order-1" title={exactBytes(node)}>
          {bytesText(node)}
        </span>
        <span className="w-12 shrink-0 text-right whitespace-nowrap">{hasProgress ? percentText(percentage) : ''}</span>
      </div>
      <Bar percent={hasProgress ? percentage : 0} label={`${name}: progress`} tone={mark.tone} />
      <NodeNote node={node} operation={operation} />
    </li>
  )
}

/** Keeps its height while empty, so that rows do not move. */
function NodeNote({ node, operation }: { readonly node: OperationNode; readonly operation: OperationView }) {
  const note = noteOf(node, useNow())
  const tone = node.status === 'error' ? 'text-bad' : node.status === 'running_on_worker' ? 'text-wait' : 'text-soft'
  return (
    <div className="flex min-h-[1.45em] items-start justify-between gap-3">
      <p className="min-w-0 text-soft [overflow-wrap:anywhere]">
        {/* Screen readers already got this from the pill's hint. */}
        {note !== '' && (
          <span aria-hidden={node.status === 'running_on_worker'} className={tone}>
            {note}
          </span>
        )}
        {note !== '' && node.file_name !== '' && ' · '}
        <span className="font-mono text-[12px]">{node.file_name}</span>
      </p>
      {canRetry(node) && <RetryNode node={node} operation={operation} />}
    </div>
  )
}

function RetryNode({ node, operation }: { readonly node: OperationNode; readonly operation: OperationView }) {
  const retry = useRetry(operation)
  return (
    <Button isBusy={retry.isPending} aria-label={`Retry on ${node.node_name}`} onClick={() => retry.mutate(node)}>
      Retry
    </Button>
  )
}

function bytesText({ current, total }: OperationNode): string {
  if (total > 0) return formatBytesOf(current, total)
  return current > 0 ? formatBytes(current) : ''
}
const exactBytes = ({ current, total }: OperationNode): string | undefined => (total > 0 ? `${current} of ${total} bytes` : undefined)

interface DisclosureProps {
  readonly label: string
  /** The operation, for screen readers. */
  readonly of: string
  readonly isInitiallyOpen?: boolean
  readonly children: () => ReactNode
}

/** Expands on demand. The state is not in the address. */
export function Disclosure({ label, of, isInitiallyOpen = false, children }: DisclosureProps) {
  const [isOpen, setOpen] = useState(isInitiallyOpen)
  const id = useId()
  return (
    <div className="flex flex-col gap-2">
      <DisclosureButton label={label} of={of} isOpen={isOpen} controls={id} onToggle={() => setOpen(!isOpen)} />
      <div id={id} hidden={!isOpen}>
        {isOpen && children()}
      </div>
    </div>
  )
}

interface DisclosureButtonProps {
  readonly label: string
  readonly of: string
  readonly isOpen: boolean
  readonly controls: string
  readonly onToggle: () => void
}

export function DisclosureButton({ label, of, isOpen, controls, onToggle }: DisclosureButtonProps) {
  return (
    <button
      type="button"
      aria-expanded={isOpen}
      aria-controls={controls}
      onClick={onToggle}
      className="self-start rounded-md px-1 whitespace-nowrap text-soft hover:text-ink"
    >
      <span aria-hidden className="inline-block w-4">
        {isOpen ? '▾' : '▸'}
      </span>
      {label}
      <span className="sr-only"> of {of}</span>
    </button>
  )
}
