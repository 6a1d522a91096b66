// Closes what the address has open, so that "back" never opens it again: one step back where that is the page without
// it, and otherwise (a link led straight to it) another address in place of this one.
import { useNavigate, useRouter, type AnyRouter } from '@tanstack/react-router'
import { useCallback } from 'react'

/** The addresses of this visit by their place in the history: a browser tells nobody where "back" leads. */
const trail = new Map<number, string>()
/** The step that is being left: closed twice, it is left once. */
let leaving: string | null = null

export function followTrail(router: AnyRouter): void {
  const note = (): void => {
    const { href, state } = router.history.location
    leaving = null
    trail.set(state['__TSR_index'], href)
  }
  note()
  router.history.subscribe(note)
}

type Key = 'op' | 'add' | 'ask' | 'on' | 'wish' | 'backend' | 'act' | 'model' | 'open'

/** `keys` of the address say what is open. */
export function useClose(...keys: readonly Key[]): () => void {
  const router = useRouter()
  const navigate = useNavigate()
  const named = keys.join(' ')
  return useCallback(() => {
    const nothing = Object.fromEntries(named.split(' ').map((key) => [key, undefined]))
    const { href, state } = router.history.location
    if (leaving === href) return
    leaving = href
    const without = router.buildLocation({ to: '.', search: (before) => ({ ...before, ...nothing }) }).href
    if (trail.get(state['__TSR_index'] - 1) === without) router.history.back()
    else void navigate({ to: '.', replace: true, search: (before) => ({ ...before, ...nothing }) })
  }, [router, navigate, named])
}
