// Short notices that something was begun, or was refused. They go by themselves; what they tell can be found elsewhere too.
import { createContext, useCallback, useContext, useEffect, useRef, useState, type ReactNode } from 'react'
import { toneText, type Tone } from './state.tsx'

interface Notice {
  readonly id: number
  readonly tone: Tone
  readonly text: string
}
type Tell = (tone: Tone, text: string) => void
const NoticesContext = createContext<Tell>(() => undefined)

export const useNotices = (): Tell => useContext(NoticesContext)

const shownMs = 6_000

export function NoticesProvider({ children }: { readonly children: ReactNode }) {
  const [notices, setNotices] = useState<readonly Notice[]>([])
  const last = useRef(0)
  const tell = useCallback<Tell>((tone, text) => {
    const notice = { id: (last.current += 1), tone, text }
    setNotices((before) => [...before.slice(-3), notice])
    setTimeout(() => setNotices((before) => before.filter(({ id }) => id !== notice.id)), shownMs)
  }, [])
  const place = useAboveDialogs(notices)
  return (
    <NoticesContext value={tell}>
      {children}
      <div
        ref={place}
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

/** A modal dialog covers everything but what was shown after it: notices are shown again whenever there is one of either. */
function useAboveDialogs(notices: readonly Notice[]) {
  const place = useRef<HTMLDivElement>(null)
  const raise = useCallback(() => {
    if (place.current?.matches(':popover-open') === true) place.current.hidePopover()
    place.current?.showPopover()
  }, [])
  useEffect(raise, [raise, notices])
  useEffect(() => {
    const onToggle = (event: Event): void => void (event.target instanceof HTMLDialogElement && event.target.open && raise())
    document.addEventListener('toggle', onToggle, true)
    return () => document.removeEventListener('toggle', onToggle, true)
  }, [raise])
  return place
}
