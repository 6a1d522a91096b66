// What has to be so before anything else of the page runs.

// The page's own policy forbids to make code out of text, which zod would try for its speed: as soon as the first schema
// is made, so that no module could say it early enough.
Reflect.set(globalThis, '__zod_globalConfig', { jitless: true })

// What was chosen in src/components/theme.ts; without a choice the system's is followed, by style.css.
try {
  const chosen = localStorage.getItem('muster.theme')
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
} catch {
  // A browser that keeps nothing follows the system.
}
