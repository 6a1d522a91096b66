// The turns of the conversation. Scrolls with new text while the end is in view.
import { useEffect, useRef, type RefObject } from 'react'
import { Button } from '../../components/button.tsx'
import { AnswerView } from './answer-view.tsx'
import type { Turn } from './conversation.pure.ts'

const endMarginPx = 120

export interface TurnListProps {
  readonly turns: readonly Turn[]
  readonly isBusy: boolean
  readonly onEdit: () => void
  readonly onRegenerate: () => void
}

export function TurnList({ turns, isBusy, onEdit, onRegenerate }: TurnListProps) {
  const list = useRef<HTMLOListElement>(null)
  useStickyScroll(list)
  return (
    <ol ref={list} aria-label="Conversation" className="flex flex-col gap-5">
      {turns.map((turn, index) => (
        <li key={turn.id} className="flex flex-col gap-2">
          <div className="flex items-start justify-between gap-3">
            <p className="min-w-0 rounded-md bg-sunken px-3 py-2 whitespace-pre-wrap [overflow-wrap:anywhere]">{turn.question}</p>
            {index === turns.length - 1 && !isBusy && (
              <span className="flex shrink-0 gap-1">
                <Button look="bare" onClick={onEdit}>
                  Edit
                </Button>
                <Button look="bare" onClick={onRegenerate}>
                  Regenerate
                </Button>
              </span>
            )}
          </div>
          <article
            aria-label={`Response ${index + 1}`}
            aria-busy={isBusy && index === turns.length - 1}
            className="flex flex-col gap-1 px-3"
          >
            {index > 0 && turns[index - 1]?.model !== turn.model && (
              <p className="text-[13px] text-soft [overflow-wrap:anywhere]">from {turn.model}</p>
            )}
            <AnswerView turn={turn} />
          </article>
        </li>
      ))}
    </ol>
  )
}

function useStickyScroll(list: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const element = list.current
    if (element === null) return undefined
    let isAtEnd = true
    let count = element.childElementCount
    const updateIsAtEnd = (): void => {
      const { scrollHeight, clientHeight, scrollTop } = document.documentElement
      isAtEnd = scrollHeight - clientHeight - scrollTop < endMarginPx
    }
    const observer = new ResizeObserver(() => {
      // A new message scrolls to the end.
      isAtEnd ||= element.childElementCount > count
      count = element.childElementCount
      if (isAtEnd && count > 0) scrollTo({ top: document.documentElement.scrollHeight })
    })
    observer.observe(element)
    addEventListener('scroll', updateIsAtEnd, { passive: true })
    return () => {
      observer.disconnect()
      removeEventListener('scroll', updateIsAtEnd)
    }
  }, [list])
}
