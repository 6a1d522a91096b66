// Parts of a page, one at a time. Which one is in the address: they are links.
import { Link } from '@tanstack/react-router'

export interface Tab {
  readonly id: string
  readonly label: string
  readonly count?: number
}

/** Changes `tab` of the address, and nothing else of it. */
export function Tabs({ tabs, chosen, label }: { readonly tabs: readonly Tab[]; readonly chosen: string; readonly label: string }) {
  return (
    <nav aria-label={label} className="flex gap-4 overflow-x-auto border-b">
      {tabs.map(({ id, label: name, count }) => (
        <Link
          key={id}
          to="."
          search={(before) => ({ ...before, tab: id })}
          aria-current={id === chosen ? 'page' : undefined}
          className={`-mb-px border-b-2 px-0.5 py-1.5 whitespace-nowrap ${id === chosen ? 'border-ink text-ink' : 'border-transparent text-soft hover:text-ink'}`}
        >
          {name}
          {count !== undefined && <span className="ml-1 text-soft">{count}</span>}
        </Link>
      ))}
    </nav>
  )
}
