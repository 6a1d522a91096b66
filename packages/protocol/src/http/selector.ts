// Labels of nodes, and selectors that choose nodes by them. The worker reports labels, an administrator overrides them, and
// Muster sets its own. In a selector a string means equal, a list one of, "*" exists, "!" is absent, "!x" is not equal.
import { z } from 'zod'

export const automaticLabels = ['node.name', 'node.os', 'node.arch', 'gpu.vendor', 'gpu.vram'] as const

export const LabelKey = z
  .string()
  .regex(
    /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?$/,
    'a label key is 1–128 characters of A–Z, a–z, 0–9 and . _ / -, beginning and ending with a letter or digit',
  )
export const LabelValue = z.string().regex(/^[^\p{C}\p{Zl}\p{Zp}]{0,255}$/u, 'a label value is at most 255 printable characters')

/** A selector that cannot be parsed. */
export const SettableLabelKey = LabelKey.refine((key) => !automaticLabels.some((automatic) => automatic === key), {
  error: (issue) => `${String(issue.input)} is set by Muster and cannot be changed`,
})
const few = (labels: object): boolean => Object.keys(labels).length <= 64
const tooMany = 'a node has at most 64 labels'

export const Labels = z.record(SettableLabelKey, LabelValue).refine(few, tooMany)
export type Labels = z.infer<typeof Labels>

/** A change: null removes a label. */
export const LabelPatch = z.record(SettableLabelKey, LabelValue.nullable()).refine(few, tooMany)
export type LabelPatch = z.infer<typeof LabelPatch>

const value = z.string().max(255)
export const Selector = z
  .record(LabelKey, z.union([value, z.array(value).min(1, 'a list of values has at least one').max(256)]))
  .refine((selector) => Object.keys(selector).length > 0, 'a selector names at least one label')
  .refine((selector) => Object.keys(selector).length <= 64, 'a selector names at most 64 labels')
export type Selector = z.infer<typeof Selector>

export type ParsedSelector = Readonly<{ selector: Selector } | { problem: string }>

/** Reads `KEY=VALUE` words, as the CLI and the web take them; a repeated key means one of its values. */
export function parseSelector(words: readonly string[]): ParsedSelector {
  const values = new Map<string, string[]>()
  for (const word of words) {
    const equals = word.indexOf('=')
    const key = word.slice(0, Math.max(equals, 0)).trim()
    if (key === '') return { problem: `"${word.trim()}" is not KEY=VALUE` }
    values.set(key, [...(values.get(key) ?? []), word.slice(equals + 1).trim()])
  }
  if (values.size === 0) return { problem: 'expected at least one label, such as rack=b2' }
  const parsed = Selector.safeParse(Object.fromEntries([...values].map(([key, given]) => [key, given.length === 1 ? given[0] : given])))
  if (parsed.success) return { selector: parsed.data }
  const [issue] = parsed.error.issues
  // A bad key is described one level deeper.
  const reason = issue?.code === 'invalid_key' ? issue.issues[0]?.message : issue?.message
  return { problem: `${issue === undefined || issue.path.length === 0 ? '' : `${issue.path[0]?.toString()}: `}${reason ?? 'not valid'}` }
}

export const matchesSelector = (selector: Selector, labels: Readonly<Record<string, string>>): boolean =>
  findMismatchedLabel(selector, labels) === null

/** The first label for which the selector excludes a node; null when the node matches. */
export function findMismatchedLabel(selector: Selector, labels: Readonly<Record<string, string>>): string | null {
  for (const key of Object.keys(selector)) {
    const wanted = selector[key]
    if (wanted !== undefined && !matches(wanted, Object.hasOwn(labels, key) ? labels[key] : undefined)) return key
  }
  return null
}

function matches(wanted: string | readonly string[], label: string | undefined): boolean {
  if (typeof wanted !== 'string') return label !== undefined && wanted.includes(label)
  if (wanted === '*') return label !== undefined
  if (wanted === '!') return label === undefined
  return wanted.startsWith('!') ? label !== wanted.slice(1) : label === wanted
}
