// Form fields, each with a label, a hint and an error.
import { type ComponentProps, type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'

const box = 'min-h-7 w-full rounded-md border bg-raised px-2 py-0.5 text-ink aria-invalid:border-bad'

interface FieldProps {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | null | undefined
  /** The label is for screen readers only. */
  readonly isLabelHidden?: boolean | undefined
}

interface ControlProps {
  readonly id: string
  readonly 'aria-invalid': boolean
  readonly 'aria-describedby': string
}

function Field({
  label,
  hint,
  error = null,
  isLabelHidden = false,
  children,
}: FieldProps & { children: (props: ControlProps) => ReactNode }) {
  const id = useId()
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id} className={isLabelHidden ? 'sr-only' : 'font-medium'}>
        {label}
      </label>
      {children({ id, 'aria-invalid': error !== null, 'aria-describedby': `${id}-note` })}
      <div id={`${id}-note`}>
        {hint !== undefined && <p className="text-soft">{hint}</p>}
        {error !== null && (
          <p role="alert" className="text-bad [overflow-wrap:anywhere]">
            {error}
          </p>
        )}
      </div>
    </div>
  )
}

export function TextField({ label, hint, error, isLabelHidden, className = '', ...rest }: FieldProps & ComponentProps<'input'>) {
  return (
    <Field {...{ label, hint, error, isLabelHidden }}>{(props) => <input {...props} {...rest} className={`${box} ${className}`} />}</Field>
  )
}

export function TextArea({ label, hint, error, isLabelHidden, className = '', ...rest }: FieldProps & ComponentProps<'textarea'>) {
  return (
    <Field {...{ label, hint, error, isLabelHidden }}>
      {(props) => <textarea {...props} {...rest} className={`${box} ${className}`} />}
    </Field>
  )
}

type SelectProps = FieldProps & ComponentProps<'select'> & { readonly choices: readonly { value: string; label: string }[] }

export function SelectField({ label, hint, error, isLabelHidden, choices, className = '', ...rest }: SelectProps) {
  return (
    <Field {...{ label, hint, error, isLabelHidden }}>
      {(props) => (
        <select {...props} {...rest} className={`${box} ${className}`}>
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

type OptionProps = ComponentProps<'input'> & { readonly label: ReactNode; readonly hint?: ReactNode }

/** A checkbox or radio button. */
function Option({ label, hint, ...rest }: OptionProps) {
  const id = useId()
  return (
    <div className="flex min-w-0 items-baseline gap-2">
      <input id={id} {...rest} aria-describedby={hint === undefined ? undefined : `${id}-hint`} className="translate-y-0.5" />
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

interface CheckProps extends Pick<OptionProps, 'label' | 'hint'> {
  readonly isChecked: boolean
  readonly onChange: (isChecked: boolean) => void
}

export function Check({ isChecked, onChange, ...rest }: CheckProps) {
  return <Option {...rest} type="checkbox" checked={isChecked} onChange={(event) => onChange(event.target.checked)} />
}

interface RadioGroupProps<T extends string> {
  readonly legend: string
  readonly choices: readonly { readonly value: T; readonly label: string; readonly hint?: string }[]
  readonly chosen: T
  readonly onSelect: (value: T) => void
}

export function RadioGroup<T extends string>({ legend, choices, chosen, onSelect }: RadioGroupProps<T>) {
  const name = useId()
  return (
    <fieldset className="flex min-w-0 flex-col gap-1">
      <legend className="mb-1 font-medium">{legend}</legend>
      {choices.map(({ value, ...choice }) => (
        <Option key={value} {...choice} type="radio" name={name} checked={value === chosen} onChange={() => onSelect(value)} />
      ))}
    </fieldset>
  )
}

interface SearchFieldProps {
  readonly label: string
  /** The search parameter of the address. */
  readonly text: string
  /** Undefined when the field is empty, which removes the parameter. */
  readonly onType: (text: string | undefined) => void
}

/**
 * Uncontrolled while it has the focus: the address follows with a delay. A change of the address (back, a link) replaces the
 * text. The shortcut `/` focuses it.
 */
export function SearchField({ label, text, onType }: SearchFieldProps) {
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
      placeholder="Search ( / )"
      data-search=""
      className="w-56"
      defaultValue={text}
      onChange={({ target }) => onType(target.value === '' ? undefined : target.value)}
    />
  )
}

type FormProps = Omit<ComponentProps<'form'>, 'onSubmit'> & { readonly onSubmit: () => void }

/** A form that is submitted by script. */
export function Form({ onSubmit, ...rest }: FormProps) {
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    onSubmit()
  }
  return <form {...rest} onSubmit={submit} />
}

const debounceMs = 250

/** The value once it has not changed for a moment. The first value after null is returned at once. */
export function useDebounced<T extends string | null>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), settled === null ? 0 : debounceMs)
    return () => clearTimeout(timer)
  }, [value, settled])
  return settled
}
