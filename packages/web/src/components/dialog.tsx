// What opens above a page: a sheet in its middle that asks, or a drawer at its side that shows. Both are the browser's
// own modal dialog: it keeps the focus inside, and escape closes it.
import { type AnyRouter, useNavigate, useRouter } from '@tanstack/react-router'
import { type ReactNode, useCallback, useId, useLayoutEffect, useRef } from 'react'
import { Button, type ButtonProps } from './button.tsx'
import { Failed } from './loaded.tsx'

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

interface ConfirmSheetProps {
  readonly title: string
  /** What the button does; a name in it may be long. */
  readonly act: string
  readonly look: Extract<ButtonProps['look'], 'primary' | 'danger'>
  /** The way back: `Keep it`. */
  readonly keep: string
  readonly doing?: { readonly isPending: boolean; readonly error: Error | null }
  /** Above the server's sentence, when it was refused. */
  readonly refused?: string
  readonly onConfirm: () => void
  readonly onClose: () => void
  readonly children: ReactNode
}

export function ConfirmSheet({ title, act, look, keep, doing, refused = 'It was refused.', ...rest }: ConfirmSheetProps) {
  const { onConfirm, onClose, children } = rest
  const error = doing?.error ?? null
  return (
    <Dialog
      title={title}
      place="sheet"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{keep}</Button>
          <Button look={look} isBusy={doing?.isPending ?? false} onClick={onConfirm} className="max-w-full">
            <span className="max-w-80 truncate">{act}</span>
          </Button>
        </>
      }
    >
      {children}
      {error !== null && <Failed title={refused} error={error} />}
    </Dialog>
  )
}

/** What will happen, point by point. */
export function Consequences({ lines }: { readonly lines: readonly string[] }) {
  return (
    <ul className="flex list-disc flex-col gap-2 pl-5 [overflow-wrap:anywhere]">
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  )
}

/** The addresses of this visit by their place in the history: a browser tells nobody where "back" leads. */
const trail = new Map<number, string>()
/** The step that is being left: closed twice, it is left once. */
let leaving: string | null = null

export function followTrail(router: AnyRouter): void {
  const note = (): void => {
    const { href, state } = router.history.location
    leaving = null
    trail.set(state['__TSR_index'], href)
  }
  note()
  router.history.subscribe(note)
}

type Key = 'op' | 'add' | 'ask' | 'on' | 'wish' | 'backend' | 'act' | 'model' | 'open'

/** `keys` of the address say what is open. */
export function useClose(...keys: readonly Key[]): () => void {
  const router = useRouter()
  const navigate = useNavigate()
  const named = keys.join(' ')
  return useCallback(() => {
    const nothing = Object.fromEntries(named.split(' ').map((key) => [key, undefined]))
    const { href, state } = router.history.location
    if (leaving === href) return
    leaving = href
    const without = router.buildLocation({ to: '.', search: (before) => ({ ...before, ...nothing }) }).href
    if (trail.get(state['__TSR_index'] - 1) === without) router.history.back()
    else void navigate({ to: '.', replace: true, search: (before) => ({ ...before, ...nothing }) })
  }, [router, navigate, named])
}
