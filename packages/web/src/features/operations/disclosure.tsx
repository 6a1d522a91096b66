// Shows more on demand. Whether it is open is nobody else's business: it is not in the address, and closed after a reload.
import { useId, useState, type ReactNode } from 'react'

export interface DisclosureProps {
  readonly label: string
  /** Said to those who listen, where the label alone would not tell whose it is. */
  readonly of: string
  readonly isOpenAtFirst?: boolean
  readonly children: () => ReactNode
}

export function Disclosure({ label, of, isOpenAtFirst = false, children }: DisclosureProps) {
  const [isOpen, setOpen] = useState(isOpenAtFirst)
  const id = useId()
  return (
    <div className="flex flex-col gap-2">
      <DisclosureButton label={label} of={of} isOpen={isOpen} controls={id} onToggle={() => setOpen(!isOpen)} />
      <div id={id} hidden={!isOpen}>
        {isOpen && children()}
      </div>
    </div>
  )
}

export interface DisclosureButtonProps {
  readonly label: string
  readonly of: string
  readonly isOpen: boolean
  readonly controls: string
  readonly onToggle: () => void
}

export function DisclosureButton({ label, of, isOpen, controls, onToggle }: DisclosureButtonProps) {
  return (
    <button
      type="button"
      aria-expanded={isOpen}
      aria-controls={controls}
      onClick={onToggle}
      className="self-start rounded-md px-1 whitespace-nowrap text-soft hover:text-ink"
    >
      <span aria-hidden className="inline-block w-4">
        {isOpen ? '▾' : '▸'}
      </span>
      {label}
      <span className="sr-only"> of {of}</span>
    </button>
  )
}
