// The list of nodes and its filters.
import { Link, useNavigate } from '@tanstack/react-router'
import { memo, useCallback, useMemo } from 'react'
import { NodeStatus, type NodeView } from '@muster/protocol'
import { SearchField, SelectField } from '../../components/field.tsx'
import { Bar } from '../../components/state.tsx'
import { plural } from '../../format.ts'
import { ApproveButton, NodeMenu } from './node-actions.tsx'
import { countNames, describeMachine, labelChoices, memoryOf, type NodeFilter } from './node-words.pure.ts'
import { pickNodes, togglePick } from './node-selection.pure.ts'
import { NodeStatusMark } from './node-status.tsx'

const columnNames = ['Node', 'State', 'Memory', 'Machine', 'Models', 'Backends', 'Actions']

/** Rows are grids of their own, so that rows out of view cost nothing (`lazy-row`) and stack on a narrow screen. */
export function NodeTable({ nodes, picked }: { readonly nodes: readonly NodeView[]; readonly picked: string | undefined }) {
  const navigate = useNavigate()
  const ids = nodes.map(({ id }) => id).join('.')
  const pickedIds = new Set(pickNodes(picked, nodes).map(({ id }) => id))
  const isAll = pickedIds.size === nodes.length
  const pickAll = (): void =>
    void navigate({ to: '/nodes', search: (before) => ({ ...before, picked: isAll ? undefined : 'all' }), replace: true })
  // Stable while the same nodes are shown, so that a heartbeat renders one row.
  const pick = useCallback(
    (id: string): void =>
      void navigate({ to: '/nodes', search: (before) => ({ ...before, picked: togglePick(before.picked, id, ids) }), replace: true }),
    [navigate, ids],
  )
  return (
    <table aria-label="Nodes" className="block rounded-md border bg-raised text-left text-[13px]">
      <thead className="sr-only lg:not-sr-only lg:block">
        <tr className={`border-b px-3 py-1.5 text-soft ${nodeColumns}`}>
          <th scope="col" className="font-normal">
            <input type="checkbox" aria-label="Select all nodes" checked={isAll} onChange={pickAll} />
          </th>
          {columnNames.map((name) => (
            <th key={name} scope="col" className="font-normal">
              {name === 'Actions' ? <span className="sr-only">Actions</span> : name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody className="block">
        {nodes.map((node) => (
          <NodeRow key={node.id} node={node} isPicked={pickedIds.has(node.id)} onPick={pick} />
        ))}
      </tbody>
    </table>
  )
}

const nodeColumns = 'lg:grid lg:grid-cols-[1rem_minmax(0,1.3fr)_minmax(0,1.2fr)_9rem_minmax(0,1fr)_minmax(0,1.2fr)_6rem_8rem] lg:gap-x-4'
const narrow = 'grid grid-cols-[auto_minmax(0,1fr)_auto] gap-x-3 gap-y-1'
const wide = 'col-span-3 lg:col-span-1'

interface NodeRowProps {
  readonly node: NodeView
  readonly isPicked: boolean
  readonly onPick: (id: string) => void
}

const NodeRow = memo(function NodeRow({ node, isPicked, onPick }: NodeRowProps) {
  return (
    <tr
      data-row=""
      aria-label={node.name}
      className={`lazy-row border-b px-3 py-2 last:border-b-0 hover:bg-sunken ${narrow} ${nodeColumns}`}
    >
      <td>
        <input
          type="checkbox"
          aria-label={`Select ${node.name}`}
          checked={isPicked}
          onChange={() => onPick(node.id)}
          className="translate-y-0.5"
        />
      </td>
      <th scope="row" className="min-w-0 text-left font-normal">
        <Link
          to="/nodes/$id"
          params={{ id: node.id }}
          title={node.name}
          className="block truncate font-medium underline-offset-2 hover:underline"
        >
          {node.name}
        </Link>
        <span className="text-soft">{node.node_type}</span>
      </th>
      <td className={`order-1 min-w-0 lg:order-none ${wide}`}>
        <NodeStatusMark node={node} />
      </td>
      <td className={`order-2 min-w-0 lg:order-none ${wide}`}>
        <Memory node={node} />
      </td>
      <td className={`order-3 min-w-0 text-soft lg:order-none ${wide}`}>{describeMachine(node)}</td>
      <td className={`order-4 min-w-0 lg:order-none ${wide}`}>
        <Models names={node.models} />
      </td>
      <td className={`order-5 min-w-0 text-soft lg:order-none ${wide}`}>
        {node.backends.length > 0 && <span className="block">{plural(node.backends.length, 'backend')}</span>}
        {node.pending_ops > 0 && <span className="block text-work">{plural(node.pending_ops, 'pending operation')}</span>}
      </td>
      <td className="flex items-start justify-end gap-1">
        {node.status === 'pending' && <ApproveButton node={node} />}
        <NodeMenu node={node} />
      </td>
    </tr>
  )
})

function Memory({ node }: { readonly node: NodeView }) {
  const memory = memoryOf(node.resources)
  if (memory === null) return <span className="text-soft">Memory unknown</span>
  return (
    <span className="flex max-w-60 flex-col gap-1">
      <span className="whitespace-nowrap">
        {memory.text} <span className="text-soft">{memory.kind}</span>
      </span>
      <Bar percent={memory.percent} label={`${memory.kind} in use`} />
    </span>
  )
}

function Models({ names }: { readonly names: readonly string[] }) {
  return (
    <ul className="flex flex-wrap gap-1">
      {countNames(names).map(({ name, count }) => (
        <li key={name} className="max-w-full">
          <Link to="/models/$name" params={{ name }} title={name} className="block truncate rounded-md border px-1.5 hover:bg-raised">
            {name}
            {count > 1 && <span className="text-soft"> ×{count}</span>}
          </Link>
        </li>
      ))}
    </ul>
  )
}

const types = [
  { value: undefined, label: 'All' },
  { value: 'backend', label: 'Backend' },
  { value: 'agent', label: 'Agent' },
] as const

export function NodeFilters({ nodes, filter }: { readonly nodes: readonly NodeView[]; readonly filter: NodeFilter }) {
  const navigate = useNavigate()
  const labels = useMemo(() => labelChoices(nodes), [nodes])
  const choices = filter.label === undefined || labels.includes(filter.label) ? labels : [filter.label, ...labels]
  const choose = (change: NodeFilter, isTyped = false): void =>
    void navigate({ to: '/nodes', search: (before) => ({ ...before, ...change }), replace: isTyped })
  return (
    <div role="search" aria-label="Filter nodes" className="flex flex-wrap items-center gap-2">
      <div role="group" aria-label="Type" className="flex rounded-md border">
        {types.map(({ value, label }) => (
          <Link
            key={label}
            to="/nodes"
            search={(before) => ({ ...before, type: value })}
            aria-current={filter.type === value ? 'true' : undefined}
            className={`rounded-md px-2.5 py-0.5 ${filter.type === value ? 'bg-sunken font-medium' : 'text-soft hover:text-ink'}`}
          >
            {label}
          </Link>
        ))}
      </div>
      <SelectField
        label="State"
        isLabelHidden
        value={filter.state ?? ''}
        onChange={(event) => choose({ state: event.target.value || undefined })}
        choices={[{ value: '', label: 'Any state' }, ...NodeStatus.options.toReversed().map((state) => ({ value: state, label: state }))]}
      />
      <SelectField
        label="Label"
        isLabelHidden
        className="max-w-56"
        value={filter.label ?? ''}
        onChange={(event) => choose({ label: event.target.value || undefined })}
        choices={[{ value: '', label: 'Any label' }, ...choices.map((label) => ({ value: label, label }))]}
      />
      <SearchField label="Search by name, ID or label" text={filter.q ?? ''} onType={(q) => choose({ q }, true)} />
    </div>
  )
}
