// How long a server asks to be left alone. Its wish counts up to a limit: a registry must not be able to stop us for good.
export const longestRetryAfterMs = 120_000

/** Seconds or a date; null when it says neither. */
export function retryAfterMs(header: string | undefined, now: number): number | null {
  const text = header?.trim() ?? ''
  if (/^\d{1,15}$/.test(text)) return Math.min(Number(text) * 1000, longestRetryAfterMs)
  // Only the form that HTTP prescribes: Date.parse takes nearly anything for a date.
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(text)) return null
  const at = Date.parse(text)
  return Number.isNaN(at) ? null : Math.min(Math.max(at - now, 0), longestRetryAfterMs)
}
