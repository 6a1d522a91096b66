// Things to fill in, each with its name, and with what is wrong about it beside it.
import { useId, type ComponentProps, type ReactNode } from 'react'

const box = 'min-h-7 w-full rounded-md border bg-raised px-2 py-0.5 text-ink aria-invalid:border-bad'

interface Labelled {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | null
  /** The name is for those who listen only: what is around it says it to the others. */
  readonly isLabelHidden?: boolean
}

function Frame({
  id,
  label,
  hint,
  error,
  isLabelHidden = false,
  children,
}: Labelled & { readonly id: string; readonly children: ReactNode }) {
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id} className={isLabelHidden ? 'sr-only' : 'font-medium'}>
        {label}
      </label>
      {children}
      <div id={`${id}-note`}>
        {hint !== undefined && <p className="text-soft">{hint}</p>}
        {error !== undefined && error !== null && (
          <p role="alert" className="text-bad [overflow-wrap:anywhere]">
            {error}
          </p>
        )}
      </div>
    </div>
  )
}

export function TextField({ label, hint, error, isLabelHidden, className = '', ...rest }: Labelled & ComponentProps<'input'>) {
  const id = useId()
  return (
    <Frame id={id} label={label} hint={hint} error={error ?? null} isLabelHidden={isLabelHidden ?? false}>
      <input id={id} aria-invalid={typeof error === 'string'} aria-describedby={`${id}-note`} {...rest} className={`${box} ${className}`} />
    </Frame>
  )
}

export function TextArea({ label, hint, error, isLabelHidden, className = '', ...rest }: Labelled & ComponentProps<'textarea'>) {
  const id = useId()
  return (
    <Frame id={id} label={label} hint={hint} error={error ?? null} isLabelHidden={isLabelHidden ?? false}>
      <textarea
        id={id}
        aria-invalid={typeof error === 'string'}
        aria-describedby={`${id}-note`}
        {...rest}
        className={`${box} ${className}`}
      />
    </Frame>
  )
}

export interface Choice {
  readonly value: string
  readonly label: string
}

export function SelectField({
  label,
  hint,
  error,
  isLabelHidden,
  choices,
  className = '',
  ...rest
}: Labelled & ComponentProps<'select'> & { readonly choices: readonly Choice[] }) {
  const id = useId()
  return (
    <Frame id={id} label={label} hint={hint} error={error ?? null} isLabelHidden={isLabelHidden ?? false}>
      <select id={id} aria-describedby={`${id}-note`} {...rest} className={`${box} ${className}`}>
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
    </Frame>
  )
}
