// A model's configuration as YAML, as a person would write it. What the server reads of it is the same again. Pure.
import type { ModelConfig } from '@muster/protocol'

const order = ['name', 'backend', 'description', 'parameters', 'context_size', 'files', 'options', 'known_usecases', 'scheduling'] as const

/** What has its default is left out. */
export function toYaml(config: ModelConfig): string {
  const written = order.flatMap((key) => {
    const value = config[key]
    return value === undefined || isEmpty(value) ? [] : [[key, value] as const]
  })
  return `${linesOfMap(written, '').join('\n')}\n`
}

const isEmpty = (value: unknown): boolean => typeof value === 'object' && value !== null && Object.keys(value).length === 0

function linesOfMap(entries: readonly (readonly [string, unknown])[], indent: string): string[] {
  return entries
    .filter(([, value]) => value !== undefined)
    .flatMap(([name, value]) => {
      const key = scalar(name)
      // A key that is longer than this has to announce itself.
      const head = key.length > 500 ? `${indent}? ${key}\n${indent}:` : `${indent}${key}:`
      return withValue(head, value, `${indent}  `)
    })
}

/** `inner`: how far what stands below `head` is indented. */
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

/** Words that mean something else than themselves to one reader of YAML or another. */
const words = /^(?:true|false|null|yes|no|on|off|y|n)$/i
const plain = /^[A-Za-z_][A-Za-z0-9_./+@-]*$/
/** Letters that YAML wants escaped, and JSON does not. */
const escaped = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g

function scalar(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value)
  if (plain.test(value) && !words.test(value)) return value
  return JSON.stringify(value).replace(escaped, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Several lines that can stand as they are: nothing invisible, nothing at an edge that would be lost. */
const isLiteral = (text: string): boolean =>
  /^[^\s](?:[\n\x20-\x7e\u00a1-\ud7ff]*[^\s])?$/u.test(text) && text.includes('\n') && !escapedOnce.test(text) && !/[^\S\n]$/m.test(text)
const escapedOnce = new RegExp(escaped.source)
