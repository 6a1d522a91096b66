// What was chosen in src/app/theme.ts; without a choice the system's is followed, by style.css.
try {
  const chosen = localStorage.getItem('muster.theme')
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
} catch {
  // A browser that keeps nothing follows the system.
}
