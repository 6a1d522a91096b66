// The hash of what a model means: what a process is started with. Formatting, the order of keys and files, and what only
// says where and how often it runs are no part of it. Pure.
import { createHash } from 'node:crypto'
import type { ModelConfig } from '@muster/protocol'

type Meaning = Pick<ModelConfig, 'backend' | 'parameters' | 'context_size' | 'files' | 'options'>

export function revisionOf({ backend, parameters, context_size = 0, files, options }: Meaning): string {
  // Files have names, which can't be there twice, so their order says nothing.
  const sorted = files.toSorted((a, b) => (a.filename < b.filename ? -1 : 1))
  const text = canonical({ backend, parameters, context_size, files: sorted, options })
  return `sha256-${createHash('sha256').update(text).digest('hex')}`
}

/** JSON with sorted keys. What is undefined is not there. */
function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  return `{${entries
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`)
    .join(',')}}`
}
