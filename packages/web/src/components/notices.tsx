// Short notices that something was begun, or was refused. They go by themselves; what they tell can be found elsewhere too.
import { createContext, useCallback, useContext, useMemo, useState, type ReactNode } from 'react'
import { toneText, type Tone } from './state-mark.tsx'

interface Notice {
  readonly id: number
  readonly tone: Tone
  readonly text: string
}
type Tell = (tone: Tone, text: string) => void
const NoticesContext = createContext<Tell>(() => undefined)

export const useNotices = (): Tell => useContext(NoticesContext)

const shownMs = 6_000
let last = 0

export function NoticesProvider({ children }: { readonly children: ReactNode }) {
  const [notices, setNotices] = useState<readonly Notice[]>([])
  const tell = useCallback<Tell>((tone, text) => {
    const notice = { id: (last += 1), tone, text }
    setNotices((before) => [...before.slice(-3), notice])
    setTimeout(() => setNotices((before) => before.filter(({ id }) => id !== notice.id)), shownMs)
  }, [])
  return (
    <NoticesContext value={useMemo(() => tell, [tell])}>
      {children}
      <div
        role="status"
        aria-live="polite"
        className="pointer-events-none fixed right-4 bottom-4 z-50 flex max-w-[min(28rem,calc(100vw-2rem))] flex-col gap-2"
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
