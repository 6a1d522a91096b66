// Buttons and the menu of further actions. `primary` is the main action of a dialog, `danger` cannot be undone.
import { type ComponentProps, type ReactNode, type ToggleEvent, useId, useRef, useState } from 'react'

const shape =
  'inline-flex min-h-7 items-center justify-center gap-1.5 rounded-md px-2.5 py-0.5 whitespace-nowrap transition-colors duration-100'
const looks = {
  plain: 'border bg-raised text-ink hover:bg-sunken',
  primary: 'border border-ink bg-ink text-paper hover:opacity-90',
  danger: 'border border-bad bg-raised text-bad hover:bg-sunken',
  bare: 'text-soft hover:text-ink hover:bg-sunken',
}

/** For links that look like buttons. */
export const buttonClass = (look: keyof typeof looks = 'plain'): string => `${shape} ${looks[look]}`

export interface ButtonProps extends ComponentProps<'button'> {
  readonly look?: keyof typeof looks
  readonly isBusy?: boolean
}

/** The second click of a double click arrives before the button is disabled; it must not submit twice. */
const acceptsDoubleClick = (look: ButtonProps['look'], type: ButtonProps['type']): boolean =>
  type !== 'submit' && look !== 'primary' && look !== 'danger'

export function Button({ look = 'plain', isBusy = false, className = '', disabled, onClick, children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      onClick={(event) => {
        if (event.detail > 1 && !acceptsDoubleClick(look, rest.type)) event.preventDefault()
        else onClick?.(event)
      }}
      disabled={disabled === true || isBusy}
      aria-busy={isBusy}
      className={`${buttonClass(look)} disabled:opacity-60 ${className}`}
    >
      {children}
    </button>
  )
}

interface MenuProps {
  /** Accessible name of the button: `Actions for gpu-1`. */
  readonly label: string
  readonly children: ReactNode
}

/** Uses the browser's popover: it is above everything, is never clipped, and closes on Escape or a click elsewhere. */
export function Menu({ label, children }: MenuProps) {
  const id = useId()
  const anchor = useRef<HTMLSpanElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const [isOpen, setOpen] = useState(false)
  const place = (event: ToggleEvent<HTMLDivElement>): void => {
    if (event.newState !== 'open' || anchor.current === null || list.current === null) return setOpen(false)
    const { right, bottom } = anchor.current.getBoundingClientRect()
    list.current.style.top = `${bottom + 4}px`
    list.current.style.right = `${document.documentElement.clientWidth - right}px`
    setOpen(true)
  }
  return (
    <span ref={anchor} className="inline-flex">
      <Button look="bare" aria-label={label} title={label} popoverTarget={id}>
        ⋯
      </Button>
      <div
        ref={list}
        id={id}
        popover="auto"
        onBeforeToggle={place}
        className="fixed inset-auto m-0 min-w-36 rounded-md border bg-raised p-1 text-ink shadow-lg"
      >
        {/* Tables have hundreds of menus: only an open one is rendered. */}
        {isOpen && (
          // Any choice closes the menu.
          // oxlint-disable-next-line jsx-a11y/no-static-element-interactions
          <div className="flex flex-col" onClick={() => list.current?.hidePopover()}>
            {children}
          </div>
        )}
      </div>
    </span>
  )
}

export function MenuItem({ children, onSelect }: { readonly children: string; readonly onSelect: () => void }) {
  return (
    <Button look="bare" className="justify-start! text-ink" onClick={onSelect}>
      {children}
    </Button>
  )
}
