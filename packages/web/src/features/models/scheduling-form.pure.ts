// Converts a model's scheduling to form fields and back, with an error for each field.
import { Scheduling } from '@muster/protocol'

export interface SelectorRow {
  readonly label: string
  readonly value: string
}
export interface SchedulingForm {
  readonly isDisabled: boolean
  readonly spread: 'count' | 'all'
  readonly min: string
  readonly max: string
  readonly priority: string
  readonly policy: string
  readonly selector: readonly SelectorRow[]
}
export interface SchedulingErrors {
  readonly min?: string
  readonly max?: string
  readonly priority?: string
  /** By row index. */
  readonly selector: Readonly<Record<number, string>>
  /** An error of no single field. */
  readonly other?: string
}
export type ReadForm =
  | { readonly isValid: true; readonly scheduling: Scheduling }
  | { readonly isValid: false; readonly errors: SchedulingErrors }

export function formOf(scheduling: Scheduling): SchedulingForm {
  const digits = (value: number | undefined): string => (value === undefined ? '' : String(value))
  return {
    isDisabled: scheduling.disabled === true,
    spread: scheduling.replicas === 'all' ? 'all' : 'count',
    min: digits(scheduling.min_replicas),
    max: digits(scheduling.max_replicas),
    priority: digits(scheduling.priority),
    policy: scheduling.policy ?? '',
    selector: Object.entries(scheduling.node_selector ?? {}).map(([label, value]) => ({ label, value: textOf(value) })),
  }
}

/** Lists are separated by commas; values that contain a comma are quoted. */
const textOf = (value: string | readonly string[]): string =>
  typeof value === 'string' ? quoted(value) : `${value.map(quoted).join(', ')}${value.length === 1 ? ',' : ''}`
const quoted = (text: string): string => (/[,"]|^\s|\s$/.test(text) ? JSON.stringify(text) : text)

function valueOf(text: string): string | string[] {
  const parts = [...text.matchAll(/\s*("(?:[^"\\]|\\.)*"|[^,]*?)\s*(,|$)/gy)]
  const values = parts.map(([, part = '']) => unquoted(part))
  const hasComma = parts.some(([, , end]) => end === ',')
  if (!hasComma) return values[0] ?? ''
  return values.filter((value) => value !== '')
}

function unquoted(part: string): string {
  if (!part.startsWith('"')) return part
  try {
    return String(JSON.parse(part))
  } catch {
    return part
  }
}

export function readForm(form: SchedulingForm): ReadForm {
  const rows = form.selector.filter(({ label, value }) => label.trim() !== '' || value.trim() !== '')
  const selector = Object.fromEntries(rows.map(({ label, value }) => [label.trim(), valueOf(value)]))
  const input = {
    ...(form.spread === 'all'
      ? { replicas: 'all' }
      : { ...numberField('min_replicas', form.min), ...numberField('max_replicas', form.max) }),
    ...numberField('priority', form.priority),
    ...(form.policy === '' ? {} : { policy: form.policy }),
    ...(rows.length === 0 ? {} : { node_selector: selector }),
    ...(form.isDisabled ? { disabled: true } : {}),
  }
  const duplicate = form.selector.findIndex(
    ({ label }, at) => label.trim() !== '' && form.selector.findIndex((row) => row.label.trim() === label.trim()) < at,
  )
  if (duplicate >= 0)
    return { isValid: false, errors: { selector: { [duplicate]: 'Duplicate label; separate several values with commas' } } }
  const parsed = Scheduling.safeParse(input)
  return parsed.success ? { isValid: true, scheduling: parsed.data } : { isValid: false, errors: errorsOf(parsed.error.issues, form) }
}

/** Text that is not a number is kept, and rejected by the schema. */
function numberField(key: string, text: string): Record<string, number | string> {
  const typed = text.trim()
  return typed === '' ? {} : { [key]: /^-?\d+$/.test(typed) ? Number(typed) : typed }
}

function errorsOf(issues: readonly { path: readonly PropertyKey[]; message: string }[], form: SchedulingForm): SchedulingErrors {
  const of = (key: string): { message?: string } => issues.find(({ path }) => path[0] === key) ?? {}
  const general = issues.find(({ path }) => path.length === 0)?.message
  const min = of('min_replicas').message ?? (general?.startsWith('min_replicas') === true ? general : undefined)
  const max = of('max_replicas').message
  const priority = of('priority').message
  const selector = issues.flatMap(({ path, message }) => {
    if (path[0] !== 'node_selector') return []
    const at = form.selector.findIndex(({ label }) => label.trim() === path[1])
    return [[Math.max(0, at), message] as const]
  })
  return {
    ...(min === undefined ? {} : { min: readableError(min) }),
    ...(max === undefined ? {} : { max: readableError(max) }),
    ...(priority === undefined ? {} : { priority: readableError(priority) }),
    selector: Object.fromEntries(selector),
    ...(general === undefined || general === min ? {} : { other: general }),
  }
}

/** Rewrites the schema's messages for users. */
function readableError(message: string): string {
  if (/expected (?:number|int)/.test(message) && message.startsWith('Invalid')) return 'Enter a whole number'
  const [, max, min] = /to be <=(-?\d+)|to be >=(-?\d+)/.exec(message) ?? []
  if (max !== undefined) return `Must be at most ${Number(max).toLocaleString('en')}`
  if (min !== undefined) return `Must be at least ${Number(min).toLocaleString('en')}`
  return message
}
