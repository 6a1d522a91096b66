// Which nodes are shown. All of it is in the address: back works, and a link can be shared.
import { NodeStatus, type NodeView } from '@muster/protocol'
import { Link, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { SelectField } from '../../components/field.tsx'
import { SearchText } from '../../components/search-text.tsx'
import { labelChoices, type NodeFilter } from './filter-nodes.ts'

const types = [
  { value: undefined, label: 'All' },
  { value: 'backend', label: 'Backend' },
  { value: 'agent', label: 'Agent' },
] as const

export function NodeFilters({ nodes, filter }: { readonly nodes: readonly NodeView[]; readonly filter: NodeFilter }) {
  const navigate = useNavigate()
  const labels = useMemo(() => labelChoices(nodes), [nodes])
  const known = filter.label === undefined || labels.includes(filter.label) ? labels : [filter.label, ...labels]
  const choose = (change: NodeFilter, isTyped = false): void =>
    void navigate({ to: '/nodes', search: (before) => ({ ...before, ...change }), replace: isTyped })
  return (
    <div role="search" aria-label="Nodes" className="flex flex-wrap items-center gap-2">
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
        choices={[{ value: '', label: 'any state' }, ...NodeStatus.options.toReversed().map((state) => ({ value: state, label: state }))]}
      />
      <SelectField
        label="Label"
        isLabelHidden
        className="max-w-56"
        value={filter.label ?? ''}
        onChange={(event) => choose({ label: event.target.value || undefined })}
        choices={[{ value: '', label: 'any label' }, ...known.map((label) => ({ value: label, label }))]}
      />
      <SearchText label="Search by name, id or label" text={filter.q ?? ''} onType={(q) => choose({ q }, true)} />
    </div>
  )
}
