// The configuration file: YAML, one key per setting, named like its flag. Values stay text: the kind of the setting parses
// a 0x10 or a yes, not YAML.
import { isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml'
import { closestWord } from './closest-word.ts'
import { SettingsError } from './setting-kinds.ts'

export interface SettingsFile {
  readonly path: string
  readonly text: string
  /** Keys of other commands, which share the file. */
  readonly alsoKnown?: readonly string[]
}

export interface FileEntry {
  /** `path:line` */
  readonly from: string
  /** A map's entries come as `key=value`. */
  readonly value: string | readonly string[]
}

export function readSettingsFile(file: SettingsFile, flags: readonly string[]): ReadonlyMap<string, FileEntry> {
  const lines = new LineCounter()
  // Pretty errors would quote the lines around the mistake, which may hold a secret.
  const document = parseDocument(file.text, { lineCounter: lines, prettyErrors: false })
  const from = (offset: number): string => `${file.path}:${lines.linePos(offset).line}`
  const [error] = document.errors
  if (error !== undefined) throw new SettingsError(`${from(error.pos[0])}: ${error.message}`)
  const root = document.contents
  if (root === null || (isScalar(root) && root.value === null)) return new Map()
  if (!isMap(root)) throw new SettingsError(`${from(root.range?.[0] ?? 0)}: the file holds no settings of the form key: value`)

  const known = new Set([...flags, ...(file.alsoKnown ?? [])])
  const entries = new Map<string, FileEntry>()
  for (const { key, value } of root.items) {
    const name = textOf(key) ?? ''
    const where = from(isScalar(key) ? (key.range?.[0] ?? 0) : 0)
    if (!known.has(name)) throw new SettingsError(`${where}: unknown key "${name}"; the closest known key is ${closestWord(name, known)}`)
    const given = valueOf(value)
    if (given === null) throw new SettingsError(`--${name} (from ${where}): it has no value, or one that is nested too deep`)
    entries.set(name, { from: where, value: given })
  }
  return entries
}

function valueOf(node: unknown): string | readonly string[] | null {
  if (isSeq(node)) return allOrNull(node.items.map(textOf))
  if (isMap(node)) return allOrNull(node.items.map(({ key, value }) => join(textOf(key), textOf(value))))
  return textOf(node)
}

function textOf(node: unknown): string | null {
  return isScalar(node) && node.value !== null ? (node.source ?? null) : null
}

const join = (key: string | null, value: string | null): string | null => (key === null || value === null ? null : `${key}=${value}`)

function allOrNull(texts: readonly (string | null)[]): readonly string[] | null {
  const present = texts.filter((text) => text !== null)
  return present.length === texts.length ? present : null
}
