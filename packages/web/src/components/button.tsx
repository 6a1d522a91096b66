// A button says what it does. `primary` is the one thing to do on a sheet, `danger` what can't be undone.
import type { ComponentProps } from 'react'

const shape =
  'inline-flex min-h-7 items-center justify-center gap-1.5 rounded-md px-2.5 py-0.5 whitespace-nowrap transition-colors duration-100'
const looks = {
  plain: 'border bg-raised text-ink hover:bg-sunken',
  primary: 'border border-ink bg-ink text-paper hover:opacity-90',
  danger: 'border border-bad bg-raised text-bad hover:bg-sunken',
  bare: 'text-soft hover:text-ink hover:bg-sunken',
}

/** For links that stand among buttons. */
export const buttonClass = (look: keyof typeof looks = 'plain'): string => `${shape} ${looks[look]}`

export interface ButtonProps extends ComponentProps<'button'> {
  readonly look?: keyof typeof looks
  readonly isBusy?: boolean
}

/** The second click of a double click comes before anything could be drawn as busy: what was asked for is asked for once. */
const takesDoubleClicks = (look: ButtonProps['look'], type: ButtonProps['type']): boolean =>
  type !== 'submit' && look !== 'primary' && look !== 'danger'

export function Button({ look = 'plain', isBusy = false, className = '', disabled, onClick, children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      onClick={(event) => {
        if (event.detail > 1 && !takesDoubleClicks(look, rest.type)) event.preventDefault()
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
