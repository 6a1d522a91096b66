// Settings as tables: flag > environment > configuration file > default. Command-line options and documentation are made
// from the same definitions, so that the three cannot differ.
import { readFileSync } from 'node:fs'
import { formatSettingDuration } from './amounts.ts'
import { findLocalAiValue, UntranslatableValue } from './localai-names.ts'
import { type Setting, type SettingKind, SettingsError } from './setting-kinds.ts'
import { type FileEntry, readSettingsFile, type SettingsFile } from './settings-file.ts'
import { errorMessage } from './error-code.ts'

export type Settings = Readonly<Record<string, Setting<unknown>>>
export type SettingsOf<S extends Settings> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never }

export interface SettingsSources {
  /** By flag name, without dashes. */
  readonly flags: Readonly<Record<string, string | readonly string[] | boolean | undefined>>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly file?: SettingsFile
  /** Reads the file that `MUSTER_<FLAG>_FILE` names. */
  readonly readFile?: (path: string) => string
}

export function defineSettings<const S extends Settings>(settings: S): S {
  const taken = new Set<string>()
  for (const { flag, aliases } of Object.values(settings)) {
    if (!/^[a-z][a-z0-9-]*$/.test(flag)) throw new Error(`"${flag}" is not a name for a flag`)
    for (const name of [environmentName(flag), ...aliases]) {
      if (taken.has(name)) throw new Error(`two settings read ${name}`)
      taken.add(name)
    }
  }
  return settings
}

export function environmentName(flag: string): string {
  return `MUSTER_${flag.toUpperCase().replaceAll('-', '_')}`
}

export function resolveSettings<S extends Settings>(settings: S, sources: SettingsSources): SettingsOf<S> {
  const values = resolveAll(settings, sources).map(({ name, value }) => [name, value] as const)
  // Each value was made by the setting of its name, as SettingsOf declares; the type of fromEntries does not show it.
  return Object.freeze(Object.fromEntries(values)) as SettingsOf<S>
}

/** The effective value of a setting as people write it, and its source. */
export interface ExplainedSetting {
  readonly flag: string
  /** For a secret: `set` or `not set`. */
  readonly value: string
  readonly default: string
  /** `the command line`, the name of an environment variable, `path:line` of the file, or `default`. */
  readonly from: string
  readonly description: string
  readonly isSecret: boolean
}

export function explainSettings(settings: Settings, sources: SettingsSources): readonly ExplainedSetting[] {
  return resolveAll(settings, sources).map(({ setting, value, from }) => ({
    flag: setting.flag,
    value: settingText(setting.kind, value),
    default: settingText(setting.kind, setting.default),
    from,
    description: setting.help,
    isSecret: setting.kind === 'secret',
  }))
}

interface ResolvedSetting {
  readonly name: string
  readonly setting: Setting<unknown>
  readonly value: unknown
  readonly from: string
}

function resolveAll(settings: Settings, sources: SettingsSources): ResolvedSetting[] {
  const flags = Object.values(settings).map(({ flag }) => flag)
  const entries = sources.file === undefined ? new Map<string, FileEntry>() : readSettingsFile(sources.file, flags)
  return Object.entries(settings).map(([name, setting]) => ({ name, setting, ...resolve(setting, sources, entries.get(setting.flag)) }))
}

/** The unparsed values of one source. */
type RawValue = Readonly<{ from: string; values: readonly string[] }>

function resolve(
  setting: Setting<unknown>,
  sources: SettingsSources,
  entry: FileEntry | undefined,
): Pick<ResolvedSetting, 'value' | 'from'> {
  const given = fromFlag(setting, sources) ?? fromEnvironment(setting, sources) ?? fromFile(setting, entry)
  if (given === null) return { value: setting.default, from: 'default' }
  try {
    return { value: setting.parse(given.values), from: given.from }
  } catch (error) {
    throw refusal(setting, given.from, errorMessage(error))
  }
}

function fromFlag(setting: Setting<unknown>, { flags }: SettingsSources): RawValue | null {
  const value = flags[setting.flag]
  const from = 'the command line'
  if (value === undefined) return null
  if (!setting.allowFlag) {
    const name = environmentName(setting.flag)
    throw refusal(setting, from, `all users of this machine can read a secret there; set ${name} or ${name}_FILE instead`)
  }
  if (typeof value !== 'boolean')
    return { from, values: typeof value === 'string' ? separate(setting, value) : value.flatMap((each) => separate(setting, each)) }
  if (setting.kind !== 'bool') throw refusal(setting, from, 'it needs a value')
  return { from, values: [String(value)] }
}

/** A repeatable flag needs no separator, so only a map's (`--labels a=1,b=2`) has one: a list's values may hold commas. */
function separate(setting: Setting<unknown>, value: string): readonly string[] {
  return setting.kind === 'map' ? split(value) : [value]
}

function fromEnvironment(setting: Setting<unknown>, { env, readFile = readText }: SettingsSources): RawValue | null {
  const isSecret = setting.kind === 'secret'
  const name = environmentName(setting.flag)
  const path = isSecret ? env[`${name}_FILE`] : undefined
  if (path !== undefined) {
    if (env[name] !== undefined) throw refusal(setting, `${name}_FILE`, `${name} is set too; keep one of them`)
    return { from: `${name}_FILE`, values: [readSecret(setting, path, readFile)] }
  }
  // Shells and compose files leave a variable out by setting it to empty; an empty secret is a mistake.
  const from = [name, ...setting.aliases].find((each) => env[each] !== undefined && (isSecret || env[each] !== ''))
  return from === undefined ? fromLocalAi(setting, env) : { from, values: splitIfMany(setting, env[from] ?? '') }
}

/** Names of LocalAI come last in the environment. */
function fromLocalAi(setting: Setting<unknown>, env: SettingsSources['env']): RawValue | null {
  try {
    return findLocalAiValue(setting.flag, env)
  } catch (error) {
    if (!(error instanceof UntranslatableValue)) throw error
    throw refusal(setting, error.from, error.message)
  }
}

function fromFile(setting: Setting<unknown>, entry: FileEntry | undefined): RawValue | null {
  if (entry === undefined) return null
  const { from, value } = entry
  if (typeof value === 'string') return { from, values: splitIfMany(setting, value) }
  if (!isMany(setting)) throw refusal(setting, from, 'it takes one value, not several')
  return { from, values: value }
}

const isMany = ({ kind }: Setting<unknown>): boolean => kind === 'list' || kind === 'map'

const splitIfMany = (setting: Setting<unknown>, value: string): readonly string[] => (isMany(setting) ? split(value) : [value])

function split(text: string): readonly string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

const readText = (path: string): string => readFileSync(path, 'utf8')

function readSecret(setting: Setting<unknown>, path: string, readFile: (path: string) => string): string {
  try {
    return readFile(path).replace(/[\r\n]+$/, '')
  } catch (error) {
    throw refusal(setting, `${environmentName(setting.flag)}_FILE`, `cannot read "${path}": ${errorMessage(error)}`)
  }
}

function refusal({ flag }: Setting<unknown>, from: string, problem: string): SettingsError {
  return new SettingsError(`--${flag} (from ${from}): ${problem}`)
}

/** A value as people write it, without secrets. */
export function settingText(kind: SettingKind, value: unknown): string {
  if (kind === 'secret') return value === undefined ? 'not set' : 'set'
  if (value === undefined || value === null) return ''
  if (kind === 'duration' && typeof value === 'number') return formatSettingDuration(value)
  if (Array.isArray(value)) return value.map((each) => withoutPassword(String(each))).join(', ')
  if (typeof value === 'object')
    return Object.entries(value)
      .map(([key, each]) => `${key}=${withoutPassword(String(each))}`)
      .join(', ')
  return withoutPassword(typeof value === 'string' ? value : JSON.stringify(value))
}

/** The part of a URL before an @ may hold a password or a token. */
const withoutPassword = (text: string): string => text.replaceAll(/(:\/\/)[^/?#\s,]*@/g, '$1***@')
