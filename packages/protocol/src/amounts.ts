// Amounts as people read them, the same in CLI, web and server messages.
const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const

/** `1.2 GB`: three figures at most, decimal units. `-` when unknown. */
export function formatBytes(bytes: number | null): string {
  if (bytes === null) return '-'
  const power = unitPower(bytes)
  return `${power === 0 ? Math.round(bytes) : formatFigure(bytes / 1000 ** power)} ${units[power]}`
}

/** `61 of 80 GB`: both in the unit of the total. */
export function formatBytesOf(used: number, total: number): string {
  const power = unitPower(total)
  return `${formatFigure(used / 1000 ** power)} of ${formatFigure(total / 1000 ** power)} ${units[power]}`
}

/** `12 GB free of 64 GB`; `-` when the total is unknown. */
export const formatFree = (free: number | null, total: number | null): string =>
  total === null ? '-' : free === null ? formatBytes(total) : `${formatBytes(free)} free of ${formatBytes(total)}`

/** A value that would be rounded to 1000 of a unit is 1 of the next. */
function unitPower(bytes: number): number {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1)
  return power < units.length - 1 && Math.round(bytes / 1000 ** power) >= 1000 ? power + 1 : power
}

const formatFigure = (value: number): string => (value >= 100 ? Math.round(value).toString() : value.toFixed(1).replace(/\.0$/, ''))

/** The two largest units: `45s`, `2m5s`, `12m`, `3h12m`, `9d4h`. Seconds are left out from ten minutes on. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86_400)]
  if (minutes === 0) return `${seconds}s`
  if (minutes < 10) return joinUnits(`${minutes}m`, seconds % 60, 's')
  if (hours === 0) return `${minutes}m`
  return days === 0 ? joinUnits(`${hours}h`, minutes % 60, 'm') : joinUnits(`${days}d`, hours % 24, 'h')
}

const joinUnits = (large: string, rest: number, unit: string): string => (rest === 0 ? large : `${large}${rest}${unit}`)
