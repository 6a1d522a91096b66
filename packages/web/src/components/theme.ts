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
