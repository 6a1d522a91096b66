import { useNavigate } from '@tanstack/react-router'
import { useCallback } from 'react'

/** A sheet is open because the address says so. */
export function useCloseSheet(): () => void {
  const navigate = useNavigate()
  return useCallback(() => void navigate({ to: '.', search: (before) => ({ ...before, wish: undefined, backend: undefined }) }), [navigate])
}
