// Which numbers about a machine are believed. Tools report [N/A], negative, absurd and missing
// figures; all of them mean *unknown*. Zero would read as "full", infinity as "endless".

const largest = 2 ** 50

/** An amount that may be zero, such as what is free. */
export function saneBytes(value: number | undefined): number | null {
  if (value === undefined || !Number.isFinite(value) || value < 0 || value > largest) return null
  return Math.floor(value)
}

/** An amount that something which exists always has, such as a total. */
export function saneTotal(value: number | undefined): number | null {
  const bytes = saneBytes(value)
  return bytes === 0 ? null : bytes
}

/** What is free of a total: more than everything is as wrong as less than nothing. */
export function saneFree(value: number | undefined, total: number | null): number | null {
  const bytes = saneBytes(value)
  return bytes !== null && total !== null && bytes > total ? null : bytes
}

/** Only a plain decimal number is one: '' and '0x10' are not what a tool prints for a size. */
export function parseNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^-?\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text.trim()) : undefined
}
