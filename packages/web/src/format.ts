// Text helpers that every page shares. Byte sizes and durations are formatted by @muster/protocol.

/** `12`, `3.4`, `1,240`, `181k`. */
export function formatCount(value: number): string {
  if (value >= 100_000) return `${Math.round(value / 1000).toLocaleString('en')}k`
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en')
  return value.toFixed(1).replace(/\.0$/, '')
}

export const plural = (count: number, one: string, many = `${one}s`): string => `${formatCount(count)} ${count === 1 ? one : many}`

/** Eight characters distinguish the IDs, digests and revisions of one fleet. */
export const shortId = (id: string): string => id.replace(/^sha256[:-]/, '').slice(0, 8)

/** `a, b and c`; names beyond `max` are counted. */
export function listNames(names: readonly string[], max = 3): string {
  const listed = names.length > max ? [...names.slice(0, max - 1), `${names.length - max + 1} more`] : names
  return listed.length < 2 ? (listed[0] ?? '') : `${listed.slice(0, -1).join(', ')} and ${listed.at(-1)}`
}

/** `a. ` → `A.`: a message of the server as a sentence. */
export const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.?\s*$/, '')}.`

/** Milliseconds of an ISO time. Here because pure files have no `Date`. */
export const parseTime = (iso: string): number => Date.parse(iso)
export const formatTime = (ms: number): string => new Date(ms).toISOString()

export type Search = (...texts: readonly string[]) => boolean

/** Each word has to occur in one of the texts, in any case. An empty search matches everything. */
export function searchFor(text: string): Search {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  return (...texts) => {
    if (words.length === 0) return true
    const all = texts.join('\n').toLowerCase()
    return words.every((word) => all.includes(word))
  }
}

const loopback = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/

/** A hostname that only works on the machine itself. */
export const isLoopback = (hostname: string): boolean => loopback.test(hostname)
