// The message field. Enter sends, Shift + Enter starts a new line.
import { useEffect, useRef } from 'react'
import { Button } from '../../components/button.tsx'
import { Form } from '../../components/field.tsx'

export interface ComposerProps {
  readonly draft: string
  readonly isBusy: boolean
  /** Why the message cannot be sent; null when it can. */
  readonly obstacle: string | null
  readonly onChange: (draft: string) => void
  readonly onSend: () => void
  readonly onStop: () => void
}

export function Composer({ draft, isBusy, obstacle, onChange, onSend, onStop }: ComposerProps) {
  const area = useRef<HTMLTextAreaElement>(null)
  useEffect(() => area.current?.focus(), [])
  const lines = Math.min(8, Math.max(2, draft.split('\n').length))
  const send = (): void => {
    if (obstacle === null && !isBusy && draft.trim() !== '') onSend()
  }
  return (
    <Form aria-label="Composer" onSubmit={send} className="sticky bottom-0 flex flex-col gap-1 border-t bg-paper py-3">
      <div className="flex items-end gap-2">
        <textarea
          ref={area}
          aria-label="Message"
          placeholder="Enter a message. Enter sends, Shift + Enter starts a new line."
          value={draft}
          rows={lines}
          onChange={(event) => onChange(event.target.value)}
          onKeyDown={(event) => {
            // During IME composition Enter confirms the composition.
            if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
            event.preventDefault()
            send()
          }}
          className="min-h-14 w-full resize-y rounded-md border bg-raised px-3 py-2 text-ink"
        />
        {isBusy ? (
          <Button className="w-20" onClick={onStop}>
            Stop
          </Button>
        ) : (
          <Button type="submit" look="primary" className="w-20" disabled={obstacle !== null || draft.trim() === ''}>
            Send
          </Button>
        )}
      </div>
      <p className="min-h-5 text-[13px] text-wait">{obstacle}</p>
    </Form>
  )
}
