// The kinds of settings: how each parses its text. The sources of the text are in settings.ts.
import { parseDuration } from './amounts.ts'
import { Secret } from './secret.ts'

export type SettingKind = 'string' | 'choice' | 'int' | 'bool' | 'duration' | 'list' | 'map' | 'secret'

export interface Setting<T> {
  readonly kind: SettingKind
  /** Without dashes; also the key in the configuration file. */
  readonly flag: string
  readonly help: string
  readonly default: T
  /** The default as people write it; empty when there is none. */
  readonly defaultText: string
  /** Further environment variables, after `MUSTER_<FLAG>`. */
  readonly aliases: readonly string[]
  readonly allowFlag: boolean
  /** Throws an Error that names the problem and the accepted values. */
  readonly parse: (values: readonly string[]) => T
}

export interface Definition<V> {
  readonly flag: string
  readonly help: string
  readonly aliases?: readonly string[]
  /** A further check of a parsed value: the problem, or null. */
  readonly check?: (value: V) => string | null
}

export function string(definition: Definition<string> & { default: string }): Setting<string>
export function string(definition: Definition<string>): Setting<string | undefined>
export function string(definition: Definition<string> & { default?: string }): Setting<string | undefined> {
  return setting(definition, { kind: 'string', default: definition.default, defaultText: definition.default ?? '', parse: only })
}

type ChoiceDefinition<V extends string> = Definition<V> & { values: readonly V[] }
export function choice<const V extends string>(definition: ChoiceDefinition<V> & { default: NoInfer<V> }): Setting<V>
export function choice<const V extends string>(definition: ChoiceDefinition<V>): Setting<V | undefined>
export function choice<const V extends string>(definition: ChoiceDefinition<V> & { default?: NoInfer<V> }): Setting<V | undefined> {
  const parse = (values: readonly string[]): V => {
    const text = only(values)
    const found = definition.values.find((value) => value === text)
    if (found === undefined) throw new Error(`"${text}" is not one of ${definition.values.join(', ')}`)
    return found
  }
  return setting(definition, { kind: 'choice', default: definition.default, defaultText: definition.default ?? '', parse })
}

type IntDefinition = Definition<number> & { min?: number; max?: number }
export function int(definition: IntDefinition & { default: number }): Setting<number>
export function int(definition: IntDefinition): Setting<number | undefined>
export function int(definition: IntDefinition & { default?: number }): Setting<number | undefined> {
  const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = definition
  const parse = (values: readonly string[]): number => {
    const text = only(values)
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    const from = definition.min === undefined ? '' : ` from ${min}`
    const to = definition.max === undefined ? '' : ` up to ${max}`
    throw new Error(`"${text}" is not a whole number${from}${to}`)
  }
  return setting(definition, { kind: 'int', default: definition.default, defaultText: String(definition.default ?? ''), parse })
}

const truth: ReadonlyMap<string, boolean> = new Map([
  ...['true', 'yes', 'on', '1'].map((word) => [word, true] as const),
  ...['false', 'no', 'off', '0'].map((word) => [word, false] as const),
])
export function bool(definition: Definition<boolean> & { default: boolean }): Setting<boolean>
export function bool(definition: Definition<boolean>): Setting<boolean | undefined>
export function bool(definition: Definition<boolean> & { default?: boolean }): Setting<boolean | undefined> {
  const parse = (values: readonly string[]): boolean => {
    const text = only(values)
    const value = truth.get(text.toLowerCase())
    if (value === undefined) throw new Error(`"${text}" is neither true nor false`)
    return value
  }
  return setting(definition, { kind: 'bool', default: definition.default, defaultText: String(definition.default ?? ''), parse })
}

/** `allowZero`: 0 is a value. */
type DurationDefinition = Definition<number> & { allowZero?: boolean }
/** In milliseconds. 0 means the default unless it is a value. */
export function duration(definition: DurationDefinition & { default: string }): Setting<number>
export function duration(definition: DurationDefinition): Setting<number | undefined>
export function duration(definition: DurationDefinition & { default?: string }): Setting<number | undefined> {
  const standard = definition.default === undefined ? undefined : parseDuration(definition.default)
  const parse = (values: readonly string[]): number | undefined => {
    const value = parseDuration(only(values))
    return value === 0 && definition.allowZero !== true ? standard : value
  }
  return setting(definition, { kind: 'duration', default: standard, defaultText: definition.default ?? '', parse })
}

export function list(definition: Definition<readonly string[]> & { default?: readonly string[] }): Setting<readonly string[]> {
  const standard = Object.freeze([...(definition.default ?? [])])
  return setting(definition, {
    kind: 'list',
    default: standard,
    defaultText: standard.join(','),
    parse: (values) => Object.freeze([...values]),
  })
}

type StringMap = Readonly<Record<string, string>>
export function map(definition: Definition<StringMap> & { default?: StringMap }): Setting<StringMap> {
  const standard = Object.freeze({ ...definition.default })
  const defaultText = Object.entries(standard)
    .map(([key, value]) => `${key}=${value}`)
    .join(',')
  return setting(definition, { kind: 'map', default: standard, defaultText, parse: parsePairs })
}

export function secret(definition: Definition<Secret> & { allowFlag?: boolean }): Setting<Secret | undefined> {
  const parse = (values: readonly string[]): Secret => {
    const text = only(values)
    if (text === '') throw new Error('it is empty: give a value, or leave it out')
    return new Secret(text)
  }
  return {
    ...setting(definition, { kind: 'secret', default: undefined, defaultText: '', parse }),
    allowFlag: definition.allowFlag ?? false,
  }
}

function setting<V, T extends V | undefined>(
  { flag, help, aliases = [], check }: Definition<V>,
  kind: Pick<Setting<T>, 'kind' | 'default' | 'defaultText' | 'parse'>,
): Setting<T> {
  const parse = (values: readonly string[]): T => {
    const value = kind.parse(values)
    const problem = value === undefined ? null : (check?.(value) ?? null)
    if (problem !== null) throw new Error(problem)
    return value
  }
  return { ...kind, parse, flag, help, aliases, allowFlag: true }
}

function only(values: readonly string[]): string {
  const [value, ...more] = values
  if (value === undefined || more.length > 0) throw new Error('it takes exactly one value')
  return value
}

function parsePairs(pairs: readonly string[]): StringMap {
  const found = new Map<string, string>()
  for (const pair of pairs) {
    const [, key, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? []
    if (key === undefined || value === undefined) throw new Error(`"${pair}" is not of the form key=value`)
    if (found.has(key)) throw new Error(`"${key}" is given twice`)
    found.set(key, value)
  }
  return Object.freeze(Object.fromEntries(found))
}

/** A bad setting. The message names the flag, the source of the value, and the accepted values. */
export class SettingsError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'SettingsError'
  }
}
