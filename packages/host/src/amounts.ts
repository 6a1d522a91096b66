// Durations as people write them: 500ms, 30s, 15m, 24h, 30d, also 1.5h and 1h30m.
const unitMs = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const

/** A hundred years: a longer duration is a mistake, and leads to invalid dates. */
const maxMs = 36_500 * unitMs.d

const part = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g
const whole = /^(?:0|(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+)$/
const accepted = 'use a number and a unit, as in 500ms, 30s, 15m, 24h or 30d'

/** In whole milliseconds; only a written zero gives 0. */
export function parseDuration(text: string): number {
  if (/^-\s*[\d.]/.test(text)) throw new Error(`"${text}" is negative: ${accepted}`)
  if (!whole.test(text)) throw new Error(`"${text}" is not a duration: ${accepted}`)
  let exact = 0
  for (const [, amount, unit] of text.matchAll(part)) {
    if (unit !== undefined && unit in unitMs) exact += Number(amount) * unitMs[unit as keyof typeof unitMs]
  }
  if (exact > maxMs) throw new Error(`"${text}" is longer than a hundred years: ${accepted}`)
  return exact === 0 ? 0 : Math.max(1, Math.round(exact))
}

/** In the largest unit that leaves nothing over, so that `parseDuration` gives the same again. */
export function formatSettingDuration(ms: number): string {
  if (ms === 0) return '0s'
  for (const [unit, size] of Object.entries(unitMs)) if (ms % size === 0) return `${ms / size}${unit}`
  return `${ms}ms`
}

// Sizes as people write them: 12GB, 512MiB.
const units: ReadonlyMap<string, number> = new Map([
  ['b', 1],
  ['kb', 1e3],
  ['mb', 1e6],
  ['gb', 1e9],
  ['tb', 1e12],
  ['kib', 2 ** 10],
  ['mib', 2 ** 20],
  ['gib', 2 ** 30],
  ['tib', 2 ** 40],
])

/** Null: not a size. */
export function parseBytes(text: string): number | null {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)\s?([A-Za-z]+)$/.exec(text) ?? []
  const factor = units.get(unit?.toLowerCase() ?? '')
  return amount === undefined || factor === undefined ? null : Math.floor(Number(amount) * factor)
}
