// One node of the list. It is drawn again only when the node changed: a list of hundreds stays quick.
import type { NodeView } from '@muster/protocol'
import { Link } from '@tanstack/react-router'
import { memo } from 'react'
import { Bar } from '../../components/bar.tsx'
import { plural } from '../../format/amounts.ts'
import { ApproveButton, NodeMenu } from './node-actions.tsx'
import { memoryOf, sayMachine } from './node-memory.ts'
import { NodeStatusMark } from './node-status.tsx'
import { countNames } from './node-words.ts'

/** The same for the head and for each row: rows are laid out each on its own, so that those out of sight cost nothing. */
export const nodeColumns = 'lg:grid lg:grid-cols-[minmax(0,1.3fr)_minmax(0,1.2fr)_9rem_minmax(0,1fr)_minmax(0,1.2fr)_6rem_8rem] lg:gap-x-4'
const narrow = 'grid grid-cols-[minmax(0,1fr)_auto] gap-x-3 gap-y-1'
const wide = 'col-span-2 lg:col-span-1'

export const NodeRow = memo(function NodeRow({ node }: { readonly node: NodeView }) {
  return (
    <tr
      data-row=""
      aria-label={node.name}
      className={`lazy-row border-b px-3 py-2 last:border-b-0 hover:bg-sunken ${narrow} ${nodeColumns}`}
    >
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
      <td className={`order-3 min-w-0 text-soft lg:order-none ${wide}`}>{sayMachine(node)}</td>
      <td className={`order-4 min-w-0 lg:order-none ${wide}`}>
        <Models names={node.models} />
      </td>
      <td className={`order-5 min-w-0 text-soft lg:order-none ${wide}`}>
        {node.backends.length > 0 && <span className="block">{plural(node.backends.length, 'backend')}</span>}
        {node.pending_ops > 0 && <span className="block text-work">{plural(node.pending_ops, 'wish', 'wishes')} open</span>}
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
  if (memory === null) return <span className="text-soft">memory unknown</span>
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
