// Amounts of memory as people write them: 12GB, 512MiB.
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

/** Null: that is no amount. */
export function parseBytes(text: string): number | null {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)\s?([A-Za-z]+)$/.exec(text) ?? []
  const factor = units.get(unit?.toLowerCase() ?? '')
  return amount === undefined || factor === undefined ? null : Math.floor(Number(amount) * factor)
}
