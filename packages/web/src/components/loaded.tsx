// A view of something that is read: loading, failed, empty or there. What is there stays while it is read again.
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Button } from './button.tsx'

export interface LoadedProps<T> {
  readonly query: UseQueryResult<T>
  /** Ends the sentence "Reading …" and "Can't read …". */
  readonly what: string
  /** Shown instead when there is nothing; says what to do about it. */
  readonly empty?: ReactNode
  readonly isEmpty?: (data: T) => boolean
  readonly children: (data: T) => ReactNode
}

export function Loaded<T>({ query, what, empty, isEmpty = isEmptyList, children }: LoadedProps<T>) {
  if (query.data !== undefined) return isEmpty(query.data) && empty !== undefined ? empty : children(query.data)
  if (query.error !== null) return <Failed title={`Can’t read ${what}.`} error={query.error} onRetry={() => void query.refetch()} />
  return (
    <p role="status" className="py-6 text-soft">
      Reading {what} …{/* It is tried again until it works; meanwhile the reason is no secret. */}
      {query.failureReason !== null && <span className="block text-wait">{query.failureReason.message}</span>}
    </p>
  )
}

const isEmptyList = (data: unknown): boolean => Array.isArray(data) && data.length === 0

/** The server's own sentence, and what to do. */
export function Failed({ title, error, onRetry }: { readonly title: string; readonly error: Error; readonly onRetry?: () => void }) {
  return (
    <div role="alert" className="flex flex-col items-start gap-2 rounded-md border border-bad p-3">
      <p className="font-medium text-bad">{title}</p>
      <p className="[overflow-wrap:anywhere]">{error.message}</p>
      {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
    </div>
  )
}

/** Nothing here yet, and the door out of it. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="flex flex-col items-start gap-3 rounded-md border border-dashed p-6">
      <p className="font-medium">{title}</p>
      {children}
    </div>
  )
}

/** What could not be found out: no reason for alarm, and none to hide it. */
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
