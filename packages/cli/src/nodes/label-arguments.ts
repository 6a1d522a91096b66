// Pure: `k=v` sets a label, `k-` takes one away (as kubectl has it).
import { LabelPatch } from '@muster/protocol'
import { usageError } from '../cli-error.ts'

export function parseLabelArguments(words: readonly string[]): LabelPatch {
  const changes = new Map<string, string | null>()
  for (const word of words) {
    const change = parseWord(word)
    if (changes.has(change.key)) throw usageError(`the label ${change.key} is given twice`)
    changes.set(change.key, change.value)
  }
  const parsed = LabelPatch.safeParse(Object.fromEntries(changes))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw usageError(`bad label ${issue?.path.join('.') ?? ''}: ${reasonOf(issue)}`)
}

function parseWord(word: string): { key: string; value: string | null } {
  const equals = word.indexOf('=')
  if (equals > 0) return { key: word.slice(0, equals), value: word.slice(equals + 1) }
  if (equals < 0 && word.length > 1 && word.endsWith('-')) return { key: word.slice(0, -1), value: null }
  throw usageError(`${JSON.stringify(word)} is no label: write KEY=VALUE to set one, KEY- to take one away`)
}

/** What is wrong with a key is told one level below the issue. */
function reasonOf(issue: { message: string; issues?: unknown } | undefined): string {
  const inner: unknown = Array.isArray(issue?.issues) ? issue.issues[0] : undefined
  if (typeof inner === 'object' && inner !== null && 'message' in inner && typeof inner.message === 'string') return inner.message
  return issue?.message ?? 'not valid'
}
