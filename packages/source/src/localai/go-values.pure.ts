// Reads values as LocalAI's YAML parser does: a number is text where text is expected, `yes` and `on` are true where a boolean is
// expected, and a word for a number is refused. Pure.
import { FleetError, ModelFileName, ModelName, plainText } from '@muster/protocol'
import { parseTemplate } from './go-template.pure.ts'

export type ValueType =
  | 'any'
  | 'artifacts'
  | 'backend'
  | 'bool'
  | 'context'
  | 'downloads'
  | 'file'
  | 'files'
  | 'float'
  | 'floats'
  | 'int'
  | 'json'
  | 'line'
  | 'map'
  | 'name'
  | 'negation'
  | 'options'
  | 'own'
  | 'pooling'
  | 'replacements'
  | 'separator'
  | 'system'
  | 'template'
  | 'text'
  | 'texts'
  | 'texts by name'
  | 'triggers'
  | 'usecases'
  /** A number or a count of which zero means "not given". */
  | 'amount'
  | 'count'

/** `empty`: the value means the same as no value. */
export type ReadValue = Readonly<{ is: 'value'; value: unknown } | { is: 'empty' } | { is: 'refused'; message: string }>
export type PlainObject = Readonly<Record<string, unknown>>

const empty: ReadValue = { is: 'empty' }
const valueOf = (value: unknown): ReadValue => ({ is: 'value', value })
const refuse = (message: string): ReadValue => ({ is: 'refused', message })
const expected = (what: string): ReadValue => refuse(`LocalAI expects ${what} here, and refuses the file as well`)

export const isObject = (value: unknown): value is PlainObject => typeof value === 'object' && value !== null && !Array.isArray(value)

/** A list or a mapping is no text; null stands for a value that is none. */
export function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : null
}

const yes = new Set(['y', 'yes', 'on', 'true'])
const no = new Set(['n', 'no', 'off', 'false'])

export function boolOf(value: unknown): boolean | null {
  if (typeof value === 'boolean') return value
  if (typeof value !== 'string') return null
  const word = value.toLowerCase()
  return yes.has(word) ? true : no.has(word) ? false : null
}

function readText(value: unknown): ReadValue {
  const text = textOf(value)
  return text === null ? expected('a text') : text === '' ? empty : valueOf(text)
}

function readNumber(value: unknown, { isWhole, isZeroEmpty }: { isWhole: boolean; isZeroEmpty: boolean }): ReadValue {
  if (typeof value !== 'number') return expected(isWhole ? 'a whole number' : 'a number')
  const number = isWhole ? Math.trunc(value) : value
  return isZeroEmpty && number === 0 ? empty : valueOf(number)
}

/** Every item, or the refusal of the first that is not one. */
function readList(value: unknown, what: string, itemOf: (item: unknown) => unknown): ReadValue {
  if (!Array.isArray(value)) return expected(`a list of ${what}`)
  const items = value.map(itemOf)
  if (items.some((item) => item === null)) return expected(`a list of ${what}`)
  return items.length === 0 ? empty : valueOf(items)
}

function readFile(value: unknown): ReadValue {
  const read = readText(value)
  if (read.is !== 'value') return read
  const name = ModelFileName.safeParse(read.value)
  return name.success ? read : refuse(`${name.error.issues[0]?.message ?? 'it is not a file name'}; put the file there and name it so`)
}

function readFiles(value: unknown): ReadValue {
  const list = readList(value, 'texts', textOf)
  if (list.is !== 'value' || !Array.isArray(list.value)) return list
  return list.value.map(readFile).find((each) => each.is === 'refused') ?? list
}

function readName(value: unknown): ReadValue {
  const text = textOf(value)?.normalize('NFC')
  if (text === undefined) return expected('a text')
  if (text === '') return empty
  const name = ModelName.safeParse(text)
  if (name.success) return valueOf(name.data)
  const reason = name.error.issues[0]?.message ?? 'it is not a model name'
  const nearest = nearestModelName(text)
  return refuse(`${reason}; rename the model${nearest === null ? '' : `, for example to ${JSON.stringify(nearest)}`}`)
}

/** The name with other characters replaced; null when nothing is left of it. */
function nearestModelName(text: string): string | null {
  const name = text
    .normalize('NFC')
    .replaceAll(/[^\p{L}\p{M}\p{Nd}._:@/+-]+/gu, '-')
    .replaceAll(/\.{2,}/g, '.')
    .replaceAll(/\/{2,}/g, '/')
    .replace(/^[^\p{L}\p{Nd}]+/u, '')
    .slice(0, 200)
  return ModelName.safeParse(name).success ? name : null
}

const maxDescription = 4096

/** One line without control characters. */
function readLine(value: unknown): ReadValue {
  const text = textOf(value)
  if (text === null) return expected('a text')
  const line = text
    .toWellFormed()
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim()
  const cut = line.length > maxDescription ? `${line.slice(0, maxDescription - 1).toWellFormed()}…` : line
  return cut === '' ? empty : valueOf(cut.replaceAll('\uFFFD', ''))
}

function readUsecases(value: unknown): ReadValue {
  const list = readList(value, 'texts', textOf)
  if (list.is !== 'value' || !Array.isArray(list.value)) return list
  const words = list.value.map((word) =>
    String(word)
      .replace(/^FLAG_/i, '')
      .toLowerCase(),
  )
  const wrong = words.find((word) => !plainText(64).safeParse(word).success)
  return wrong === undefined ? valueOf([...new Set(words)]) : refuse('a use case has at most 64 characters and no control characters')
}

/** Also Muster's own form, a mapping. */
function readOptions(value: unknown): ReadValue {
  if (isObject(value)) return Object.keys(value).length === 0 ? empty : valueOf(value)
  if (Array.isArray(value) && value.some(isObject))
    return refuse('an option is a text; write "key:value" without a space after the colon, or quote it')
  return readList(value, 'texts', textOf)
}

function readReplacements(value: unknown): ReadValue {
  return readList(value, 'mappings with key and value', (item) => {
    const [key, replacement] = isObject(item) ? [textOf(item['key'] ?? ''), textOf(item['value'] ?? '')] : [null, null]
    return key === null || replacement === null ? null : { key, value: replacement }
  })
}

function readTriggers(value: unknown): ReadValue {
  return readList(value, 'mappings with a word', (item) => {
    const word = isObject(item) ? textOf(item['word']) : null
    return word === null ? null : { word }
  })
}

function readRoles(value: unknown): ReadValue {
  if (!isObject(value)) return expected('a mapping')
  const entries = Object.entries(value).map(([role, text]) => [role, textOf(text ?? '')] as const)
  if (entries.some(([, text]) => text === null)) return expected('a mapping of texts')
  return entries.length === 0 ? empty : valueOf(Object.fromEntries(entries))
}

/** A single word names a file `WORD.tmpl` beside the model files. */
function readTemplate(value: unknown): ReadValue {
  const read = readText(value)
  if (read.is !== 'value' || typeof read.value !== 'string') return read
  if (/^[\w.-]+$/.test(read.value))
    return refuse(`it names the file ${read.value}.tmpl, which is not read here; write the text of that file in its place`)
  try {
    parseTemplate(read.value)
    return read
  } catch (error) {
    if (error instanceof FleetError) return refuse(error.message)
    throw error
  }
}

function readContext(value: unknown): ReadValue {
  const read = readNumber(value, { isWhole: true, isZeroEmpty: true })
  return read.is === 'value' && Number(read.value) < -1 ? refuse('a context has a positive number of tokens, or -1') : read
}

function readJson(value: unknown): ReadValue {
  if (typeof value === 'string') return readText(value)
  if (!isObject(value)) return expected('a mapping')
  return Object.keys(value).length === 0 ? empty : valueOf(JSON.stringify(value))
}

function readBool(value: unknown): ReadValue {
  const bool = boolOf(value)
  return bool === null ? expected('true or false') : valueOf(bool)
}

function readMap(value: unknown): ReadValue {
  return isObject(value) ? (Object.keys(value).length === 0 ? empty : valueOf(value)) : expected('a mapping')
}

/** The types that need nothing but the value; all others are read by the conversion. */
const readers: Partial<Record<ValueType, (value: unknown) => ReadValue>> = {
  any: valueOf,
  amount: (value) => readNumber(value, { isWhole: false, isZeroEmpty: true }),
  bool: readBool,
  context: readContext,
  count: (value) => readNumber(value, { isWhole: true, isZeroEmpty: true }),
  file: readFile,
  files: readFiles,
  float: (value) => readNumber(value, { isWhole: false, isZeroEmpty: false }),
  floats: (value) => readList(value, 'numbers', (item) => (typeof item === 'number' ? item : null)),
  int: (value) => readNumber(value, { isWhole: true, isZeroEmpty: false }),
  json: readJson,
  line: readLine,
  map: readMap,
  name: readName,
  negation: (value) => {
    const bool = boolOf(value)
    return bool === null ? expected('true or false') : valueOf(!bool)
  },
  options: readOptions,
  own: valueOf,
  replacements: readReplacements,
  separator: (value) => {
    const text = textOf(value)
    return text === null ? expected('a text') : valueOf(text)
  },
  template: readTemplate,
  text: readText,
  texts: (value) => readList(value, 'texts', textOf),
  'texts by name': readRoles,
  triggers: readTriggers,
  usecases: readUsecases,
}

export const readValue = (type: ValueType, value: unknown): ReadValue =>
  value === null || value === undefined ? empty : (readers[type] ?? valueOf)(value)
