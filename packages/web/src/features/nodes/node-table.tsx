import type { NodeView } from '@muster/protocol'
import { NodeRow, nodeColumns } from './node-row.tsx'

const names = ['Node', 'State', 'Memory', 'Machine', 'Models', 'Holds', 'Actions']

/** A table whose rows are laid out one by one (`lazy-row`, which a browser's own table layout ignores), and stack on a narrow screen. */
export function NodeTable({ nodes }: { readonly nodes: readonly NodeView[] }) {
  return (
    <table aria-label="Nodes" className="block rounded-md border bg-raised text-left text-[13px]">
      <thead className="sr-only lg:not-sr-only lg:block">
        <tr className={`border-b px-3 py-1.5 text-soft ${nodeColumns}`}>
          {names.map((name) => (
            <th key={name} scope="col" className="font-normal">
              {name === 'Actions' ? <span className="sr-only">Actions</span> : name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody className="block">
        {nodes.map((node) => (
          <NodeRow key={node.id} node={node} />
        ))}
      </tbody>
    </table>
  )
}
