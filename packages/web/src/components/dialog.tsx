// Modal dialogs: a sheet in the middle for forms and confirmations, a drawer at the side for details. The browser's own
// dialog element keeps the focus inside and closes on Escape.
import { type AnyRouter, useNavigate, useRouter } from '@tanstack/react-router'
import { type ReactNode, useCallback, useId, useLayoutEffect, useRef } from 'react'
import { Button, type ButtonProps } from './button.tsx'
import { Failed } from './loaded.tsx'

const places = {
  // Anchored at the top, so that growing content does not move.
  sheet: 'mx-auto mt-[max(1rem,8dvh)] mb-auto max-h-[min(86dvh,56rem)] w-[min(40rem,calc(100vw-2rem))] rounded-md border',
  drawer: 'mr-0 ml-auto h-dvh max-h-dvh w-[min(46rem,100vw)] border-l',
}

export interface DialogProps {
  readonly title: string
  readonly place: keyof typeof places
  readonly onClose: () => void
  readonly children: ReactNode
  /** Stays visible below the scrolling content. */
  readonly footer?: ReactNode
  /** Its content cannot be shown again: Escape, a click outside and the ✕ do not close it, only a button of the content does. */
  readonly isKept?: boolean
}

export function Dialog({ title, place, onClose, children, footer, isKept = false }: DialogProps) {
  const dismiss = isKept ? () => undefined : onClose
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useLayoutEffect(() => {
    const element = dialog.current
    if (element === null || element.open) return undefined
    element.showModal()
    // The first field, rather than the close button, gets the focus.
    if (place === 'sheet') element.querySelector<HTMLElement>('input, textarea, select')?.focus()
    // Closing returns the focus, which needs the element to be in the document.
    return () => element.close()
  }, [place])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      // A browser closes the dialog at the second Escape without asking.
      onKeyDown={(event) => isKept && event.key === 'Escape' && event.preventDefault()}
      onCancel={(event) => {
        event.preventDefault()
        dismiss()
      }}
      onClick={(event) => event.target === dialog.current && dismiss()}
      className={`max-w-none overflow-hidden bg-raised text-ink ${places[place]}`}
    >
      <div className="flex max-h-[inherit] min-h-0 flex-col">
        <header className="flex items-start justify-between gap-4 border-b px-4 py-3">
          <h2 id={titleId} className="text-[16px] font-semibold [overflow-wrap:anywhere]">
            {title}
          </h2>
          {!isKept && (
            <Button look="bare" onClick={onClose} aria-label="Close">
              ✕
            </Button>
          )}
        </header>
        <div className="flex min-h-0 flex-col gap-4 overflow-y-auto p-4">{children}</div>
        {footer !== undefined && <footer className="flex flex-wrap justify-end gap-2 border-t px-4 py-3">{footer}</footer>}
      </div>
    </dialog>
  )
}

interface ConfirmSheetProps {
  readonly title: string
  /** Text of the button that confirms. */
  readonly action: string
  readonly look: Extract<ButtonProps['look'], 'primary' | 'danger'>
  /** Text of the button that closes; `Cancel` by default. */
  readonly dismiss?: string
  readonly mutation?: { readonly isPending: boolean; readonly error: Error | null }
  /** Title above the server's error message. */
  readonly errorTitle?: string
  readonly onConfirm: () => void
  readonly onClose: () => void
  readonly children: ReactNode
}

/** Asks for confirmation: describes the effect, and shows an error without closing. */
export function ConfirmSheet({ title, action, look, mutation, errorTitle = 'Request failed', ...rest }: ConfirmSheetProps) {
  const { dismiss = 'Cancel', onConfirm, onClose, children } = rest
  const error = mutation?.error ?? null
  return (
    <Dialog
      title={title}
      place="sheet"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{dismiss}</Button>
          <Button look={look} isBusy={mutation?.isPending ?? false} onClick={onConfirm} className="max-w-full">
            <span className="max-w-80 truncate">{action}</span>
          </Button>
        </>
      }
    >
      {children}
      {error !== null && <Failed title={errorTitle} error={error} />}
    </Dialog>
  )
}

export function Consequences({ lines }: { readonly lines: readonly string[] }) {
  return (
    <ul className="flex list-disc flex-col gap-2 pl-5 [overflow-wrap:anywhere]">
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  )
}

/** Addresses of this visit by history index: the browser does not say where "back" leads. */
const visited = new Map<number, string>()
/** The address being left: closing it twice must go back once. */
let leaving: string | null = null

export function recordHistory(router: AnyRouter): void {
  const record = (): void => {
    const { href, state } = router.history.location
    leaving = null
    visited.set(state['__TSR_index'], href)
  }
  record()
  router.history.subscribe(record)
}

type Key = 'op' | 'add' | 'act' | 'node' | 'on' | 'picked' | 'backend' | 'model' | 'open'

/**
 * Closes what these search parameters opened, so that "back" does not open it again: goes one step back where that is the
 * page without them, and otherwise (after a direct link) replaces the address.
 */
export function useClose(...keys: readonly Key[]): () => void {
  const router = useRouter()
  const navigate = useNavigate()
  const names = keys.join(' ')
  return useCallback(() => {
    const cleared = Object.fromEntries(names.split(' ').map((key) => [key, undefined]))
    const { href, state } = router.history.location
    if (leaving === href) return
    leaving = href
    const without = router.buildLocation({ to: '.', search: (before) => ({ ...before, ...cleared }) }).href
    if (visited.get(state['__TSR_index'] - 1) === without) router.history.back()
    else void navigate({ to: '.', replace: true, search: (before) => ({ ...before, ...cleared }) })
  }, [router, navigate, names])
}
