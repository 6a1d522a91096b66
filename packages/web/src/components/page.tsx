// The content of a page: title, one sentence about the current state, actions, sections.
import { useEffect, type ReactNode } from 'react'

export interface PageProps {
  readonly title: string
  readonly sentence?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}

export function Page({ title, sentence, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Muster`
  }, [title])
  return (
    <div className="mx-auto flex w-full max-w-[1280px] flex-col gap-4 px-4 py-5 sm:px-6">
      <header className="flex flex-wrap items-start justify-between gap-x-6 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <h1 className="text-[20px] leading-7 font-semibold [overflow-wrap:anywhere]">{title}</h1>
          {/* Keeps its height while empty, so that nothing jumps. */}
          <p className="min-h-[1.45em] text-soft [overflow-wrap:anywhere]">{sentence}</p>
        </div>
        {actions !== undefined && <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section aria-label={title} className="flex flex-col gap-2">
      <header className="flex flex-wrap items-center justify-between gap-2">
        <h2 className="font-semibold">{title}</h2>
        {actions}
      </header>
      {children}
    </section>
  )
}
