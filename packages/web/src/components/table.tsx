// Tables and lists of facts. Rows can be walked through with j and k (app/keyboard.tsx finds `data-row`). On a narrow screen
// the table scrolls, never the page.
import type { ComponentProps, ReactNode } from 'react'

export interface TableProps {
  readonly label: string
  /** An empty name is the column of actions. */
  readonly columns: readonly string[]
  readonly children: ReactNode
}

export function Table({ label, columns, children }: TableProps) {
  return (
    // `relative`: screen reader texts are positioned absolutely and would otherwise widen the page.
    <div className="relative overflow-x-auto rounded-md border bg-raised" tabIndex={-1}>
      <table aria-label={label} className="w-full border-collapse text-left text-[13px]">
        <thead className="text-soft">
          <tr className="border-b">
            {columns.map((column) => (
              <th key={column} scope="col" className="px-3 py-1.5 font-normal whitespace-nowrap">
                {column === '' ? <span className="sr-only">Actions</span> : column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

export function Row({ className = '', ...rest }: ComponentProps<'tr'>) {
  return <tr data-row="" {...rest} className={`border-b last:border-b-0 hover:bg-sunken ${className}`} />
}

export function Cell({ className = '', ...rest }: ComponentProps<'td'>) {
  return <td {...rest} className={`px-3 py-2 align-top ${className}`} />
}

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
