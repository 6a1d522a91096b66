// Names and what they stand for, one below the other.
import type { ReactNode } from 'react'

export function Facts({ children }: { readonly children: ReactNode }) {
  return <dl className="grid grid-cols-[8rem_minmax(0,1fr)] gap-x-4 gap-y-1.5 [overflow-wrap:anywhere]">{children}</dl>
}

export function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <>
      <dt className="text-soft">{name}</dt>
      <dd>{children}</dd>
    </>
  )
}
