// Tabs of a page. They are links that change the `tab` parameter of the address.
import { Link } from '@tanstack/react-router'
import { useLayoutEffect, useRef } from 'react'

export interface Tab {
  readonly id: string
  readonly label: string
  readonly count?: number | undefined
}

export function Tabs({ tabs, selected, label }: { readonly tabs: readonly Tab[]; readonly selected: string; readonly label: string }) {
  const bar = useRef<HTMLElement>(null)
  // On a narrow screen the selected tab is scrolled into view.
  useLayoutEffect(() => {
    const link = [...(bar.current?.querySelectorAll('a') ?? [])].find(({ dataset }) => dataset['tab'] === selected)
    if (bar.current === null || link === undefined) return
    const [from, to] = [link.offsetLeft - bar.current.offsetLeft, link.offsetLeft - bar.current.offsetLeft + link.offsetWidth]
    if (to > bar.current.scrollLeft + bar.current.clientWidth) bar.current.scrollLeft = to - bar.current.clientWidth
    else if (from < bar.current.scrollLeft) bar.current.scrollLeft = from
  }, [selected])
  return (
    <nav ref={bar} aria-label={label} className="flex gap-4 overflow-x-auto border-b">
      {tabs.map(({ id, label: name, count }) => (
        <Link
          key={id}
          to="."
          data-tab={id}
          search={(before) => ({ ...before, tab: id })}
          aria-current={id === selected ? 'page' : undefined}
          className={`-mb-px border-b-2 px-0.5 py-1.5 whitespace-nowrap ${id === selected ? 'border-ink text-ink' : 'border-transparent text-soft hover:text-ink'}`}
        >
          {name}
          {count !== undefined && <span className="ml-1 text-soft">{count}</span>}
        </Link>
      ))}
    </nav>
  )
}
