// Writes a model's configuration as readable YAML. The server parses it to the same configuration.
import type { ModelConfig } from '@muster/protocol'

const order = [
  ...(['name', 'backend', 'description', 'parameters', 'context_size', 'files', 'options'] as const),
  ...(['template', 'roles', 'function', 'known_usecases', 'scheduling'] as const),
] as const

/** Omits fields with default values. */
export function toYaml(config: ModelConfig): string {
  const entries = order.flatMap((key) => {
    const value = config[key]
    return value === undefined || isEmpty(value) ? [] : [[key, value] as const]
  })
  return `${linesOfMap(entries, '').join('\n')}\n`
}

const isEmpty = (value: unknown): boolean => typeof value === 'object' && value !== null && Object.keys(value).length === 0

function linesOfMap(entries: readonly (readonly [string, unknown])[], indent: string): string[] {
  return entries
    .filter(([, value]) => value !== undefined)
    .flatMap(([name, value]) => {
      const key = scalar(name)
      // YAML requires explicit keys from 1,024 characters on.
      const head = key.length > 500 ? `${indent}? ${key}\n${indent}:` : `${indent}${key}:`
      return withValue(head, value, `${indent}  `)
    })
}

/** `inner` is the indentation of the lines below `head`. */
function withValue(head: string, value: unknown, inner: string): string[] {
  if (typeof value === 'string' && isLiteral(value)) return [`${head} |-`, ...value.split('\n').map((line) => line && inner + line)]
  if (typeof value !== 'object' || value === null) return [`${head} ${scalar(value)}`]
  if (isEmpty(value)) return [`${head} ${Array.isArray(value) ? '[]' : '{}'}`]
  if (!Array.isArray(value)) return [head, ...linesOfMap(Object.entries(value), inner)]
  if (value.every((item) => typeof item !== 'object' || item === null)) {
    const line = `${head} [${value.map(scalar).join(', ')}]`
    if (line.length <= 100) return [line]
  }
  return [head, ...value.flatMap((item) => linesOfItem(item, inner))]
}

function linesOfItem(item: unknown, indent: string): string[] {
  if (typeof item !== 'object' || item === null || Array.isArray(item) || isEmpty(item)) return withValue(`${indent}-`, item, `${indent}  `)
  const [first = '', ...rest] = linesOfMap(Object.entries(item), `${indent}  `)
  return [`${indent}- ${first.slice(indent.length + 2)}`, ...rest]
}

/** Words that some YAML parsers read as another type. */
const words = /^(?:true|false|null|yes|no|on|off|y|n)$/i
const plain = /^[A-Za-z_][A-Za-z0-9_./+@-]*$/
/** Characters that YAML requires to be escaped and JSON does not. */
const escaped = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g

function scalar(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value)
  if (plain.test(value) && !words.test(value)) return value
  return JSON.stringify(value).replace(escaped, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Multi-line text that a literal block preserves: no control characters, no leading or trailing whitespace. */
const isLiteral = (text: string): boolean =>
  /^[^\s](?:[\n\x20-\x7e\u00a1-\ud7ff]*[^\s])?$/u.test(text) && text.includes('\n') && !escapedOnce.test(text) && !/[^\S\n]$/m.test(text)
const escapedOnce = new RegExp(escaped.source)
