import { useEffect, useRef } from 'react'
import { SearchField } from '../../components/field.tsx'

export interface SearchTextProps {
  readonly label: string
  readonly text: string
  readonly onType: (text: string) => void
}

/** What somebody types stays as it is, whenever the address follows; what comes by the address (back, a link) replaces it. */
export function SearchText({ label, text, onType }: SearchTextProps) {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (input.current !== null && input.current !== document.activeElement) input.current.value = text
  }, [text])
  return <SearchField ref={input} label={label} defaultValue={text} onChange={(event) => onType(event.target.value)} />
}
