// Light, dark, or as the system has it. public/before.js applies the choice before the first paint.
import { useSyncExternalStore } from 'react'

export type Theme = 'system' | 'light' | 'dark'
const key = 'muster.theme'
const changed = new EventTarget()

function readTheme(): Theme {
  const chosen = document.documentElement.dataset['theme']
  return chosen === 'light' || chosen === 'dark' ? chosen : 'system'
}

export function chooseTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme
  try {
    if (theme === 'system') localStorage.removeItem(key)
    else localStorage.setItem(key, theme)
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
  changed.dispatchEvent(new Event('change'))
}

export const useTheme = (): Theme =>
  useSyncExternalStore((listener) => {
    changed.addEventListener('change', listener)
    return () => changed.removeEventListener('change', listener)
  }, readTheme)

let isForgotten = false

export function keep(key: string, value: unknown): void {
  if (isForgotten) return
  try {
    sessionStorage.setItem(key, JSON.stringify(value))
  } catch {
    // A browser that keeps nothing for anybody: then it is gone with the page.
  }
}

/** For the next person at this tab; also what would be kept as this page goes. */
export function forgetAll(): void {
  isForgotten = true
  try {
    sessionStorage.clear()
  } catch {
    // As above: there is nothing.
  }
}
