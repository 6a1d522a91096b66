// The four views of a query: loading, failed, empty or loaded. Loaded data stays while it is read again.
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Button } from './button.tsx'

export interface LoadedProps<T> {
  readonly query: UseQueryResult<T>
  /** A noun, as in "Loading nodes…" and "Could not load nodes". */
  readonly what: string
  /** Shown instead of an empty list, with the next step. */
  readonly empty?: ReactNode
  readonly isEmpty?: (data: T) => boolean
  readonly children: (data: T) => ReactNode
}

export function Loaded<T>({ query, what, empty, isEmpty = isEmptyList, children }: LoadedProps<T>) {
  if (query.data !== undefined) return isEmpty(query.data) && empty !== undefined ? empty : children(query.data)
  if (query.error !== null) return <Failed title={`Could not load ${what}`} error={query.error} onRetry={() => void query.refetch()} />
  return (
    <p role="status" className="py-6 text-soft">
      Loading {what}…{/* The query retries; the reason is shown meanwhile. */}
      {query.failureReason !== null && <span className="block text-wait">{query.failureReason.message}</span>}
    </p>
  )
}

const isEmptyList = (data: unknown): boolean => Array.isArray(data) && data.length === 0

/** An error with the server's message. */
export function Failed({ title, error, onRetry }: { readonly title: string; readonly error: Error; readonly onRetry?: () => void }) {
  return (
    <div role="alert" className="flex flex-col items-start gap-2 rounded-md border border-bad p-3">
      <p className="font-medium text-bad">{title}</p>
      <p className="[overflow-wrap:anywhere]">{error.message}</p>
      {onRetry !== undefined && <Button onClick={onRetry}>Retry</Button>}
    </div>
  )
}

/** An empty state, and what to do next. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="flex flex-col items-start gap-3 rounded-md border border-dashed p-6">
      <p className="font-medium">{title}</p>
      {children}
    </div>
  )
}

/** A list of warnings. */
export function Problems({ title, problems }: { readonly title: string; readonly problems: readonly string[] }) {
  if (problems.length === 0) return null
  return (
    <section aria-label={title} className="rounded-md border px-3 py-2 text-[13px]">
      <p className="text-wait">{title}</p>
      <ul className="max-h-32 overflow-y-auto text-soft">
        {problems.map((problem) => (
          <li key={problem} className="[overflow-wrap:anywhere]">
            {problem}
          </li>
        ))}
      </ul>
    </section>
  )
}
