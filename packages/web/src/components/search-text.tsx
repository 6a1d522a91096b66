import { useEffect, useRef } from 'react'
import { TextField } from './field.tsx'

export interface SearchTextProps {
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
