// The conversation so far. It follows what is written while one looks at its end, and stays put otherwise.
import { useEffect, useRef, type RefObject } from 'react'
import { Button } from '../../components/button.tsx'
import { AnswerView } from './answer-view.tsx'
import type { Turn } from './conversation.pure.ts'

const nearEndPx = 120

export interface TurnListProps {
  readonly turns: readonly Turn[]
  readonly isBusy: boolean
  readonly onEdit: () => void
  readonly onAskAgain: () => void
}

export function TurnList({ turns, isBusy, onEdit, onAskAgain }: TurnListProps) {
  const list = useRef<HTMLOListElement>(null)
  useFollowing(list)
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
                <Button look="bare" onClick={onAskAgain}>
                  Ask again
                </Button>
              </span>
            )}
          </div>
          <article aria-label={`Answer ${index + 1}`} aria-busy={isBusy && index === turns.length - 1} className="flex flex-col gap-1 px-3">
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

function useFollowing(list: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const element = list.current
    if (element === null) return undefined
    let isAtEnd = true
    let count = element.childElementCount
    const look = (): void => {
      const { scrollHeight, clientHeight, scrollTop } = document.documentElement
      isAtEnd = scrollHeight - clientHeight - scrollTop < nearEndPx
    }
    const grown = new ResizeObserver(() => {
      // Whoever asks wants to see what comes.
      isAtEnd ||= element.childElementCount > count
      count = element.childElementCount
      if (isAtEnd && count > 0) scrollTo({ top: document.documentElement.scrollHeight })
    })
    grown.observe(element)
    addEventListener('scroll', look, { passive: true })
    return () => {
      grown.disconnect()
      removeEventListener('scroll', look)
    }
  }, [list])
}
