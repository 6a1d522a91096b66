// Validates figures about a machine. Tools report [N/A], negative, absurd and missing figures; all of them mean *unknown*.
// Zero would read as "full", infinity as "endless".

const largest = 2 ** 50

/** An amount that may be zero, such as free memory. */
export function sanitizeBytes(value: number | undefined): number | null {
  if (value === undefined || !Number.isFinite(value) || value < 0 || value > largest) return null
  return Math.floor(value)
}

/** An amount that is never zero, such as a total. */
export function sanitizeTotal(value: number | undefined): number | null {
  const bytes = sanitizeBytes(value)
  return bytes === 0 ? null : bytes
}

/** A free amount, which is unknown when it exceeds the total. */
export function sanitizeFree(value: number | undefined, total: number | null): number | null {
  const bytes = sanitizeBytes(value)
  return bytes !== null && total !== null && bytes > total ? null : bytes
}

/** Accepts plain decimal numbers only: tools do not print '' or '0x10' for a size. */
export function parseNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^-?\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text.trim()) : undefined
}
