// Keys that work on every page. Those of a field or a dialog come first: what somebody types is never taken.
import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { Dialog } from '../components/dialog.tsx'

const places = { o: '/', n: '/nodes', b: '/backends', m: '/models', w: '/operations', p: '/playground', s: '/settings' } as const

/** What `?` shows. */
export const shortcuts: readonly (readonly [keys: string, does: string])[] = [
  ['/', 'search this page'],
  ['j  k', 'next and previous row'],
  ['enter', 'open the row'],
  ['esc', 'close what is open'],
  ['g o', 'overview'],
  ['g n', 'nodes'],
  ['g b', 'backends'],
  ['g m', 'models'],
  ['g w', 'operations (what works)'],
  ['g p', 'playground'],
  ['g s', 'settings'],
  ['?', 'this list'],
]

const chordMs = 1_200

export function useKeyboard(onHelp: () => void): void {
  const navigate = useNavigate()
  useEffect(() => {
    let pressedG = -chordMs
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      // A search that is done: the other keys work again.
      if (event.key === 'Escape' && event.target instanceof HTMLElement && 'search' in event.target.dataset) event.target.blur()
      if (isTyping(event.target)) return
      if (document.querySelector('dialog[open]') !== null) return
      const place = event.timeStamp - pressedG < chordMs ? places[event.key as keyof typeof places] : undefined
      pressedG = event.key === 'g' ? event.timeStamp : -chordMs
      if (place !== undefined) void navigate({ to: place })
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

/** A row is entered at its first link or button: enter then opens it, as everywhere. */
function moveRow(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')]
  const now = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[now < 0 ? (by > 0 ? 0 : rows.length - 1) : now + by]
  next?.querySelector<HTMLElement>('a, button')?.focus()
}

export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard" place="sheet" onClose={onClose}>
      <dl className="grid grid-cols-[5rem_1fr] gap-y-1.5">
        {shortcuts.map(([keys, does]) => (
          <div key={keys} className="contents">
            <dt className="font-mono">{keys}</dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
