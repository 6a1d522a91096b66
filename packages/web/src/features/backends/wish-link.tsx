// Opens a sheet by its address: a link, so that it can be opened elsewhere and shared.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { buttonClass } from '../../components/button.tsx'

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
    <Link to="/backends" search={(before) => ({ ...before, wish, backend })} aria-label={label} className={buttonClass()}>
      {children}
    </Link>
  )
}
