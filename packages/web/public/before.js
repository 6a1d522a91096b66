// Runs before everything else of the page.

// The content security policy forbids eval, which zod would use for speed from its first schema on, before any module could
// turn it off.
Reflect.set(globalThis, '__zod_globalConfig', { jitless: true })

// Applies the theme stored by src/components/storage.ts; without one, style.css follows the system.
try {
  const theme = localStorage.getItem('muster.theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch {
  // Without storage the system's theme applies.
}
