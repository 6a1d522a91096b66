// Choosing nodes by their labels: a string is equal, a list is one of, "*" exists, "!" is absent, "!x" is not equal.
import { z } from 'zod'
import { LabelKey } from './labels.ts'

const value = z.string().max(255)
export const Selector = z
  .record(LabelKey, z.union([value, z.array(value).min(1, 'a list of values has at least one').max(256)]))
  .refine((selector) => Object.keys(selector).length > 0, 'a selector names at least one label')
  .refine((selector) => Object.keys(selector).length <= 64, 'a selector names at most 64 labels')
export type Selector = z.infer<typeof Selector>

export const selects = (selector: Selector, labels: Readonly<Record<string, string>>): boolean => unselectedBy(selector, labels) === null

/** The first label for which the selector leaves a node out; null when it is chosen. */
export function unselectedBy(selector: Selector, labels: Readonly<Record<string, string>>): string | null {
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
