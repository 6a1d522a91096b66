// Boxes to tick and one of several, each with what it means.
import { useId, type ReactNode } from 'react'

export interface CheckProps {
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

export interface OneOfProps<T extends string> {
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
