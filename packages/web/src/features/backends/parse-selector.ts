// Labels as a person writes them, one on each line, as `muster … --selector` takes them. Pure.
import { Selector } from '@muster/protocol'

export type ParsedSelector = Readonly<{ selector: Selector } | { problem: string }>

/** `KEY=VALUE`; the same key again means one of its values, `*` any, `!` none, `!x` another one. */
export function parseSelector(text: string): ParsedSelector {
  const wanted = new Map<string, string[]>()
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    const equals = line.indexOf('=')
    const key = line.slice(0, equals).trim()
    if (equals < 0 || key === '') return { problem: `Line ${index + 1}: “${line.trim()}” is not KEY=VALUE.` }
    wanted.set(key, [...(wanted.get(key) ?? []), line.slice(equals + 1).trim()])
  }
  if (wanted.size === 0) return { problem: 'Write at least one label, as rack=b2.' }
  const parsed = Selector.safeParse(Object.fromEntries([...wanted].map(([key, values]) => [key, values.length === 1 ? values[0] : values])))
  if (parsed.success) return { selector: parsed.data }
  const [issue] = parsed.error.issues
  // The schema says what is wrong with a key deeper down.
  const inner = issue?.code === 'invalid_key' ? issue.issues[0]?.message : issue?.message
  return { problem: `${issue === undefined || issue.path.length === 0 ? '' : `${issue.path[0]?.toString()}: `}${inner ?? 'not valid'}.` }
}
