// The header `Range`: one range of bytes. Others (several ranges, other units) are left aside, as RFC 9110 allows.

/** Both ends are part of it. */
export type Range = { readonly start: number; readonly end: number }

/** Null: all of it. */
export function parseRange(header: string | null, size: number): Range | 'unsatisfiable' | null {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '') ?? []
  if (first === '' && last === '') return null
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null
  return start > end ? 'unsatisfiable' : { start, end }
}
