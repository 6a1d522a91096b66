// The scheduling of a model as a form: what is typed ↔ what it means, with what is wrong beside each field. Pure.
import { Scheduling } from '@muster/protocol'

export interface SelectorRow {
  readonly label: string
  readonly value: string
}
export interface SchedulingForm {
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
  /** By row. */
  readonly selector: Readonly<Record<number, string>>
  /** What belongs to no field. */
  readonly other?: string
}
export type ReadForm =
  | { readonly isValid: true; readonly scheduling: Scheduling }
  | { readonly isValid: false; readonly errors: SchedulingErrors }

export function formOf(scheduling: Scheduling): SchedulingForm {
  const written = (value: number | undefined): string => (value === undefined ? '' : String(value))
  return {
    spread: scheduling.replicas === 'all' ? 'all' : 'count',
    min: written(scheduling.min_replicas),
    max: written(scheduling.max_replicas),
    priority: written(scheduling.priority),
    policy: scheduling.policy ?? '',
    selector: Object.entries(scheduling.node_selector ?? {}).map(([label, value]) => ({ label, value: textOf(value) })),
  }
}

/** A list is written with commas; a text that has one itself, in quotes. */
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
  const given = {
    ...(form.spread === 'all' ? { replicas: 'all' } : { ...figure('min_replicas', form.min), ...figure('max_replicas', form.max) }),
    ...figure('priority', form.priority),
    ...(form.policy === '' ? {} : { policy: form.policy }),
    ...(rows.length === 0 ? {} : { node_selector: selector }),
  }
  const twice = form.selector.findIndex(
    ({ label }, at) => label.trim() !== '' && form.selector.findIndex((row) => row.label.trim() === label.trim()) < at,
  )
  if (twice >= 0)
    return { isValid: false, errors: { selector: { [twice]: 'this label is there already; give it several values with commas' } } }
  const parsed = Scheduling.safeParse(given)
  return parsed.success ? { isValid: true, scheduling: parsed.data } : { isValid: false, errors: errorsOf(parsed.error.issues, form) }
}

/** What is no figure stays as it is typed, for the schema to refuse. */
function figure(key: string, text: string): Record<string, number | string> {
  const typed = text.trim()
  return typed === '' ? {} : { [key]: /^-?\d+$/.test(typed) ? Number(typed) : typed }
}

interface Issue {
  readonly path: readonly PropertyKey[]
  readonly message: string
}

function errorsOf(issues: readonly Issue[], form: SchedulingForm): SchedulingErrors {
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
    ...(min === undefined ? {} : { min: plainly(min) }),
    ...(max === undefined ? {} : { max: plainly(max) }),
    ...(priority === undefined ? {} : { priority: plainly(priority) }),
    selector: Object.fromEntries(selector),
    ...(general === undefined || general === min ? {} : { other: general }),
  }
}

/** The schema's words for programs, in those for people. */
function plainly(message: string): string {
  if (/expected (?:number|int)/.test(message) && message.startsWith('Invalid')) return 'a whole number'
  const [, most, least] = /to be <=(-?\d+)|to be >=(-?\d+)/.exec(message) ?? []
  if (most !== undefined) return `at most ${Number(most).toLocaleString('en')}`
  if (least !== undefined) return `at least ${Number(least).toLocaleString('en')}`
  return message
}
