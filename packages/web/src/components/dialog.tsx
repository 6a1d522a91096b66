// What opens above a page: a sheet in its middle that asks, or a drawer at its side that shows. Both are the browser's
// own modal dialog: it keeps the focus inside, and escape closes it.
import { useId, useLayoutEffect, useRef, type ReactNode } from 'react'
import { Button } from './button.tsx'

const places = {
  // It grows downwards only: what is read stays where it is.
  sheet: 'mx-auto mt-[max(1rem,8dvh)] mb-auto max-h-[min(86dvh,56rem)] w-[min(40rem,calc(100vw-2rem))] rounded-md border',
  drawer: 'mr-0 ml-auto h-dvh max-h-dvh w-[min(46rem,100vw)] border-l',
}

export interface DialogProps {
  readonly title: string
  readonly place: keyof typeof places
  readonly onClose: () => void
  readonly children: ReactNode
  /** Stays in sight below what scrolls. */
  readonly footer?: ReactNode
}

export function Dialog({ title, place, onClose, children, footer }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useLayoutEffect(() => {
    const element = dialog.current
    if (element === null || element.open) return undefined
    element.showModal()
    // What is to be filled in comes before the button that closes.
    if (place === 'sheet') element.querySelector<HTMLElement>('input, textarea, select')?.focus()
    // While it is still there: closing gives the focus back to whoever had it.
    return () => element.close()
  }, [place])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
      className={`max-w-none overflow-hidden bg-raised text-ink ${places[place]}`}
    >
      <div className="flex max-h-[inherit] min-h-0 flex-col">
        <header className="flex items-start justify-between gap-4 border-b px-4 py-3">
          <h2 id={titleId} className="text-[16px] font-semibold [overflow-wrap:anywhere]">
            {title}
          </h2>
          <Button look="bare" onClick={onClose} aria-label="Close">
            ✕
          </Button>
        </header>
        <div className="flex min-h-0 flex-col gap-4 overflow-y-auto p-4">{children}</div>
        {footer !== undefined && <footer className="flex flex-wrap justify-end gap-2 border-t px-4 py-3">{footer}</footer>}
      </div>
    </dialog>
  )
}
