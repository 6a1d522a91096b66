// Asks before something is done: what exactly will happen, a way back, and the button that says what it does. A refusal is
// said here, and the question stays.
import type { ReactNode } from 'react'
import { Button, type ButtonProps } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Failed } from './loaded.tsx'

export interface ConfirmSheetProps {
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
