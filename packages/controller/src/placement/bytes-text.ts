// Amounts in sentences.
const units = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'] as const

export function bytesText(bytes: number): string {
  let [value, power] = [Math.max(0, bytes), 0]
  while (value >= 1000 && power < units.length - 1) [value, power] = [value / 1000, power + 1]
  return `${value < 100 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power] ?? 'bytes'}`
}
