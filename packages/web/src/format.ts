// Amounts for people: short, with the exact value to be shown beside them on demand.

const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const

/** `1.2 GB`: three figures at most. Decimal, as disks and downloads are sold; the exact value is in the tooltip. */
export function formatBytes(bytes: number): string {
  const power = powerOf(bytes)
  return `${power === 0 ? Math.round(bytes) : figure(bytes / 1000 ** power)} ${units[power]}`
}

/** What would be rounded to 1000 of a unit is 1 of the next. */
function powerOf(bytes: number): number {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1)
  return power < units.length - 1 && Math.round(bytes / 1000 ** power) >= 1000 ? power + 1 : power
}

const figure = (value: number): string => (value >= 100 ? Math.round(value).toString() : value.toFixed(1).replace(/\.0$/, ''))

/** `61 of 80 GB`: one unit, that of the larger. */
export function formatBytesOf(used: number, total: number): string {
  const power = powerOf(total)
  return `${figure(used / 1000 ** power)} of ${figure(total / 1000 ** power)} ${units[power]}`
}

/** `45 s`, `2 min`, `1 h 5 min`, `3 d`: what a person would say. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return minutes < 5 && seconds % 60 > 0 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`
  return `${Math.floor(hours / 24)} d`
}

/** `12`, `3.4`, `1,240`, `18k`. */
export function formatCount(value: number): string {
  if (value >= 100_000) return `${Math.round(value / 1000).toLocaleString('en')}k`
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en')
  return value.toFixed(1).replace(/\.0$/, '')
}

export const plural = (count: number, one: string, many = `${one}s`): string => `${formatCount(count)} ${count === 1 ? one : many}`

/** Eight characters tell ids, digests and revisions of one fleet apart. */
export const shortId = (id: string): string => id.replace(/^sha256[:-]/, '').slice(0, 8)

/** `a, b and c`; more than `most` are counted. */
export function listNames(names: readonly string[], most = 3): string {
  const shown = names.length > most ? [...names.slice(0, most - 1), `${names.length - most + 1} more`] : names
  return shown.length < 2 ? (shown[0] ?? '') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`
}

type Search = (...texts: readonly string[]) => boolean

/** Nothing to search for finds everything. */
export function searchFor(text: string): Search {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  return (...texts) => {
    if (words.length === 0) return true
    const all = texts.join('\n').toLowerCase()
    return words.every((word) => all.includes(word))
  }
}

const loopback = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/

/** A name that means the very machine it is said on. */
export const isLoopback = (hostname: string): boolean => loopback.test(hostname)
