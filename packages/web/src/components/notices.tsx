// Toast notices that something started or failed. They disappear after a few seconds.
import { createContext, useCallback, useContext, useEffect, useRef, useState, type ReactNode } from 'react'
import { toneText, type Tone } from './state.tsx'

interface Notice {
  readonly id: number
  readonly tone: Tone
  readonly text: string
}
type Notify = (tone: Tone, text: string) => void
const NoticesContext = createContext<Notify>(() => undefined)

export const useNotices = (): Notify => useContext(NoticesContext)

const shownMs = 6_000

export function NoticesProvider({ children }: { readonly children: ReactNode }) {
  const [notices, setNotices] = useState<readonly Notice[]>([])
  const last = useRef(0)
  const notify = useCallback<Notify>((tone, text) => {
    const notice = { id: (last.current += 1), tone, text }
    setNotices((before) => [...before.slice(-3), notice])
    setTimeout(() => setNotices((before) => before.filter(({ id }) => id !== notice.id)), shownMs)
  }, [])
  const container = useAboveDialogs(notices)
  return (
    <NoticesContext value={notify}>
      {children}
      <div
        ref={container}
        popover="manual"
        role="status"
        aria-live="polite"
        className="pointer-events-none fixed inset-auto right-4 bottom-4 z-50 m-0 flex max-w-[min(28rem,calc(100vw-2rem))] flex-col gap-2 overflow-visible border-0 bg-transparent p-0"
      >
        {notices.map(({ id, tone, text }) => (
          <p key={id} className={`rounded-md border bg-raised px-3 py-2 shadow-lg [overflow-wrap:anywhere] ${toneText[tone]}`}>
            {text}
          </p>
        ))}
      </div>
    </NoticesContext>
  )
}

/** A modal dialog covers everything that was shown before it, so the notices are shown again after each notice or dialog. */
function useAboveDialogs(notices: readonly Notice[]) {
  const container = useRef<HTMLDivElement>(null)
  const raise = useCallback(() => {
    if (container.current?.matches(':popover-open') === true) container.current.hidePopover()
    container.current?.showPopover()
  }, [])
  useEffect(raise, [raise, notices])
  useEffect(() => {
    const onToggle = (event: Event): void => void (event.target instanceof HTMLDialogElement && event.target.open && raise())
    document.addEventListener('toggle', onToggle, true)
    return () => document.removeEventListener('toggle', onToggle, true)
  }, [raise])
  return container
}
