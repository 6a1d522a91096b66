// Content-Range: which part of a blob an answer is.
export type ContentRange = Readonly<{ from: number; to: number; size: number | null }>

/** Null for everything that is not one well-formed range of bytes. */
export function parseContentRange(header: string | undefined): ContentRange | null {
  const [, from, to, size] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(header?.trim() ?? '') ?? []
  if (from === undefined || to === undefined) return null
  const range = { from: Number(from), to: Number(to), size: size === '*' ? null : Number(size) }
  return range.from <= range.to && (range.size === null || range.to < range.size) ? range : null
}

/** Of a 416, which says how large the blob is: `bytes` and a star for the part. */
export function parseUnsatisfiedRange(header: string | undefined): number | null {
  const [, size] = /^bytes \*\/(\d{1,15})$/.exec(header?.trim() ?? '') ?? []
  return size === undefined ? null : Number(size)
}
