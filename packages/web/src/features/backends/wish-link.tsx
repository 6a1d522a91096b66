// Opens a sheet by its address: a link, so that it can be opened elsewhere and shared.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'

export interface WishLinkProps {
  readonly wish: 'install' | 'upgrade' | 'delete'
  /** None: from an address. */
  readonly backend?: string
  /** For those who listen: which backend it is about. */
  readonly label?: string
  readonly children: ReactNode
}

export function WishLink({ wish, backend, label, children }: WishLinkProps) {
  return (
    <Link
      to="/backends"
      search={(before) => ({ ...before, wish, backend })}
      aria-label={label}
      className="inline-flex min-h-7 items-center rounded-md border bg-raised px-2.5 py-0.5 whitespace-nowrap text-ink transition-colors duration-100 hover:bg-sunken"
    >
      {children}
    </Link>
  )
}
