// Keyboard shortcuts of every page, and the help that lists them. Keys typed into a field or a dialog are left alone.
import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { Dialog } from '../components/dialog.tsx'

const routes = { o: '/', n: '/nodes', b: '/backends', m: '/models', w: '/operations', p: '/playground', s: '/settings' } as const

const shortcuts: readonly (readonly [keys: string, action: string])[] = [
  ['/', 'Search this page'],
  ['j  k', 'Next and previous row'],
  ['enter', 'Open the row'],
  ['esc', 'Close a dialog or the search'],
  ['g o', 'Overview'],
  ['g n', 'Nodes'],
  ['g b', 'Backends'],
  ['g m', 'Models'],
  ['g w', 'Operations'],
  ['g p', 'Playground'],
  ['g s', 'Settings'],
  ['?', 'Show this list'],
]

const chordMs = 1_200

export function useKeyboard(onHelp: () => void): void {
  const navigate = useNavigate()
  useEffect(() => {
    let pressedG = -chordMs
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      // Leaves the search field, so that the other shortcuts work again.
      if (event.key === 'Escape' && event.target instanceof HTMLElement && 'search' in event.target.dataset) event.target.blur()
      if (isTyping(event.target)) return
      if (document.querySelector('dialog[open]') !== null) return
      const route = event.timeStamp - pressedG < chordMs ? routes[event.key as keyof typeof routes] : undefined
      pressedG = event.key === 'g' ? event.timeStamp : -chordMs
      if (route !== undefined) void navigate({ to: route })
      else if (event.key === '/') document.querySelector<HTMLElement>('[data-search]')?.focus()
      else if (event.key === 'j' || event.key === 'k') moveRow(event.key === 'j' ? 1 : -1)
      else if (event.key === '?') onHelp()
      else return
      event.preventDefault()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [navigate, onHelp])
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))

/** Focuses the first link or button of a row, so that Enter opens it. */
function moveRow(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')]
  const current = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[current < 0 ? (by > 0 ? 0 : rows.length - 1) : current + by]
  next?.querySelector<HTMLElement>('a, button')?.focus()
}

export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" place="sheet" onClose={onClose}>
      <dl className="grid grid-cols-[5rem_1fr] gap-y-1.5">
        {shortcuts.map(([keys, action]) => (
          <div key={keys} className="contents">
            <dt className="font-mono">{keys}</dt>
            <dd>{action}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
