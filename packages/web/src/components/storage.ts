// Browser storage: the theme, and data of this tab. public/before.js applies the stored theme before the first paint.
import { useSyncExternalStore } from 'react'

export type Theme = 'system' | 'light' | 'dark'
const themeKey = 'muster.theme'
const changed = new EventTarget()

function readTheme(): Theme {
  const chosen = document.documentElement.dataset['theme']
  return chosen === 'light' || chosen === 'dark' ? chosen : 'system'
}

export function chooseTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme
  try {
    if (theme === 'system') localStorage.removeItem(themeKey)
    else localStorage.setItem(themeKey, theme)
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  changed.dispatchEvent(new Event('change'))
}

export const useTheme = (): Theme =>
  useSyncExternalStore((listener) => {
    changed.addEventListener('change', listener)
    return () => changed.removeEventListener('change', listener)
  }, readTheme)

let isCleared = false

/** Stores data of this tab until it is closed or the user logs out. */
export function saveToSession(key: string, value: unknown): void {
  if (isCleared) return
  try {
    sessionStorage.setItem(key, JSON.stringify(value))
  } catch {
    // Without storage the data lasts as long as the page.
  }
}

/** Also discards data that would be saved while the page is closing. */
export function clearSession(): void {
  isCleared = true
  try {
    sessionStorage.clear()
  } catch {
    // Without storage there is nothing to clear.
  }
}
