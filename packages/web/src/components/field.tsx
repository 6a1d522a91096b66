// Things to fill in, each with its name, and with what is wrong about it beside it.
import { type ComponentProps, type ReactNode, useEffect, useId, useRef, useState } from 'react'

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

interface CheckProps {
  readonly label: ReactNode
  readonly hint?: ReactNode
  readonly isChecked: boolean
  readonly onChange: (isChecked: boolean) => void
}

export function Check({ label, hint, isChecked, onChange }: CheckProps) {
  const id = useId()
  return (
    <div className="flex min-w-0 items-baseline gap-2">
      <input
        id={id}
        type="checkbox"
        checked={isChecked}
        onChange={(event) => onChange(event.target.checked)}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        className="translate-y-0.5"
      />
      <div className="min-w-0 [overflow-wrap:anywhere]">
        <label htmlFor={id}>{label}</label>
        {hint !== undefined && (
          <span id={`${id}-hint`} className="text-soft">
            {' '}
            {hint}
          </span>
        )}
      </div>
    </div>
  )
}

interface OneOfProps<T extends string> {
  readonly legend: string
  readonly choices: readonly { readonly value: T; readonly label: string; readonly hint?: string }[]
  readonly chosen: T
  readonly onChoose: (value: T) => void
}

export function OneOf<T extends string>({ legend, choices, chosen, onChoose }: OneOfProps<T>) {
  const id = useId()
  return (
    <fieldset className="flex min-w-0 flex-col gap-1">
      <legend className="mb-1 font-medium">{legend}</legend>
      {choices.map(({ value, label, hint }) => (
        <div key={value} className="flex min-w-0 items-baseline gap-2">
          <input
            id={`${id}-${value}`}
            type="radio"
            name={id}
            checked={value === chosen}
            onChange={() => onChoose(value)}
            aria-describedby={hint === undefined ? undefined : `${id}-${value}-hint`}
            className="translate-y-0.5"
          />
          <div className="min-w-0">
            <label htmlFor={`${id}-${value}`}>{label}</label>
            {hint !== undefined && (
              <span id={`${id}-${value}-hint`} className="text-soft">
                {' '}
                {hint}
              </span>
            )}
          </div>
        </div>
      ))}
    </fieldset>
  )
}

interface SearchTextProps {
  readonly label: string
  /** As the address has it. */
  readonly text: string
  /** Undefined when nothing is left: then it is not in the address. */
  readonly onType: (text: string | undefined) => void
}

/**
 * What somebody types stays as it is, whenever the address follows; what comes by the address (back, a link) replaces it.
 * `/` brings you here from anywhere on the page (see app/keyboard.ts).
 */
export function SearchText({ label, text, onType }: SearchTextProps) {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (input.current !== null && input.current !== document.activeElement) input.current.value = text
  }, [text])
  return (
    <TextField
      ref={input}
      type="search"
      label={label}
      isLabelHidden
      placeholder="/ search"
      data-search=""
      className="w-56"
      defaultValue={text}
      onChange={({ target }) => onType(target.value === '' ? undefined : target.value)}
    />
  )
}

const pauseMs = 250

/** What is typed, once it has stayed the same for a moment. From nothing (null) to something is no typing: that is at once. */
export function useSettled<T extends string | null>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), settled === null ? 0 : pauseMs)
    return () => clearTimeout(timer)
  }, [value, settled])
  return settled
}
