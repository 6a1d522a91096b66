// Amounts in sentences.
const units = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'] as const

export function bytesText(bytes: number): string {
  const amount = Math.max(0, bytes)
  const power = amount < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(amount) / 3))
  const value = amount / 1000 ** power
  return `${value < 100 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power] ?? 'bytes'}`
}
