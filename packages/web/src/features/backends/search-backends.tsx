import { useNavigate } from '@tanstack/react-router'
import { SearchText } from '../../components/search-text.tsx'

export function SearchBackends({ label, q }: { readonly label: string; readonly q: string }) {
  const navigate = useNavigate()
  return (
    <SearchText
      label={label}
      text={q}
      onType={(typed) => void navigate({ to: '/backends', replace: true, search: (before) => ({ ...before, q: typed }) })}
    />
  )
}
