// Numbers and moments as people read them. An unknown is `-`, never 0.
const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']

export function formatBytes(bytes: number | null): string {
  if (bytes === null) return '-'
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  const value = bytes / 1000 ** power
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power] ?? 'B'}`
}

/** `12 of 64 GB free`-like pairs; unknown when either is. */
export const formatFree = (free: number | null, total: number | null): string =>
  total === null ? '-' : free === null ? formatBytes(total) : `${formatBytes(free)} free of ${formatBytes(total)}`

/** The two largest units that matter: `45s`, `12m`, `3h12m`, `9d4h`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`
  const days = Math.floor(hours / 24)
  return hours % 24 === 0 ? `${days}d` : `${days}d${hours % 24}h`
}

/** How long ago, by our own clock; `never` without a moment, `-` for one that can't be read. */
export function formatAge(moment: string | null, now: number): string {
  if (moment === null) return 'never'
  const at = Date.parse(moment)
  return Number.isNaN(at) ? '-' : formatDuration(now - at)
}
