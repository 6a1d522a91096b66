// Validates figures about a machine. Tools report [N/A], negative, absurd and missing figures; all of them mean *unknown*.
// Zero would read as "full", infinity as "endless".

const largest = 2 ** 50

/** An amount that may be zero, such as free memory. */
export function saneBytes(value: number | undefined): number | null {
  if (value === undefined || !Number.isFinite(value) || value < 0 || value > largest) return null
  return Math.floor(value)
}

/** An amount that is never zero, such as a total. */
export function saneTotal(value: number | undefined): number | null {
  const bytes = saneBytes(value)
  return bytes === 0 ? null : bytes
}

/** A free amount, which is unknown when it exceeds the total. */
export function saneFree(value: number | undefined, total: number | null): number | null {
  const bytes = saneBytes(value)
  return bytes !== null && total !== null && bytes > total ? null : bytes
}

/** Accepts plain decimal numbers only: tools do not print '' or '0x10' for a size. */
export function parseNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^-?\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text.trim()) : undefined
}
