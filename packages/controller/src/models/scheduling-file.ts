// The file of --model-scheduling: a list of rules, one per model, in YAML or JSON. LocalAI's names are understood too; keys that
// mean nothing here are named in a note. The rules are applied once for each content of the file, so that a later change by an
// administrator stays.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { checkFile, closestWord, errorCode, type Log, SettingsError } from '@muster/host'
import { FleetError, ModelName, Scheduling } from '@muster/protocol'
import { z } from 'zod'
import type { SchedulingRuleStore } from '../store/scheduling-rules.ts'
import { readConfigText } from './config.ts'

export type SchedulingRule = Readonly<{ model: ModelName; scheduling: Scheduling }>
export type SchedulingRules = Readonly<{
  rules: readonly SchedulingRule[]
  /** Sentences about keys that have no effect. */
  notes: readonly string[]
}>

const largestFile = 1_048_576

/** LocalAI's keys that mean nothing here, and why. */
const withoutEffect: Readonly<Record<string, string>> = {
  balance_abs_threshold: 'requests go to the least busy replica when the preferred one is overloaded; there is no threshold to set',
  balance_rel_threshold: 'requests go to the least busy replica when the preferred one is overloaded; there is no threshold to set',
  min_prefix_match: 'the prefix policy needs no least length',
  unsatisfiable_until: 'placement is tried again when a node changes',
  id: 'rules are known by their model',
  created_at: 'it is a time of the other system',
  updated_at: 'it is a time of the other system',
}
const aliases = ['model', 'model_name', 'spread_all', 'route_policy'] as const
const ownKeys = Object.keys(Scheduling.shape)
const knownKeys: ReadonlySet<string> = new Set([...aliases, ...ownKeys, ...Object.keys(withoutEffect)])

const Entry = z.record(z.string(), z.unknown())

/** `from` names the text in errors: a path, or an environment variable. Throws a SettingsError with the line. */
export function parseSchedulingRules(text: string, from: string): SchedulingRules {
  const { value, lineOf } = read(text, from)
  const where = (path: readonly PropertyKey[]): string => {
    const line = lineOf(path)
    return line === null ? from : `${from}:${line}`
  }
  if (!Array.isArray(value)) throw new SettingsError(`${where([])}: the rules are a list: - model: NAME`)
  const notes: string[] = []
  const rules = value.map((each: unknown, index): SchedulingRule => {
    const entry = Entry.safeParse(each)
    if (!entry.success) throw new SettingsError(`${where([index])}: a rule is a mapping with a model`)
    const fail = (key: string, problem: string): never => {
      throw new SettingsError(`${where(key === '' ? [index] : [index, key])}: ${key === '' ? '' : `${key}: `}${problem}`)
    }
    return ruleOf(entry.data, { fail, note: (sentence) => notes.push(`${where([index])}: ${sentence}`) })
  })
  const seen = new Set<string>()
  for (const [index, { model }] of rules.entries()) {
    if (seen.has(model)) throw new SettingsError(`${where([index])}: ${model} has a rule already`)
    seen.add(model)
  }
  return { rules, notes }
}

/** JSON may begin lines with tabs, which YAML refuses. */
function read(text: string, from: string): ReturnType<typeof readConfigText> {
  try {
    return readConfigText(text, isJson(text) ? 'json' : 'yaml')
  } catch (error) {
    if (error instanceof FleetError) throw new SettingsError(`${from}: ${error.message.replace(/^the configuration cannot be read: /, '')}`)
    throw error
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

type Report = Readonly<{ fail: (key: string, problem: string) => never; note: (sentence: string) => void }>

function ruleOf(entry: Readonly<Record<string, unknown>>, { fail, note }: Report): SchedulingRule {
  for (const key of Object.keys(entry)) {
    if (!knownKeys.has(key)) fail(key, `unknown key; the closest known key is ${closestWord(key, knownKeys)}`)
    const why = withoutEffect[key]
    if (why !== undefined) note(`${key} has no effect: ${why}`)
  }
  if (entry['model'] !== undefined && entry['model_name'] !== undefined) fail('model_name', 'it says the same as model; keep one of them')
  const model = ModelName.safeParse(entry['model'] ?? entry['model_name'])
  if (!model.success) return fail('', `model is missing or not a name: ${model.error.issues[0]?.message ?? ''}`)
  const own = Object.fromEntries(Object.entries(entry).filter(([key, value]) => ownKeys.includes(key) && value !== null))
  const scheduling = Scheduling.safeParse(withAliases(own, entry, { fail, note }))
  if (scheduling.success) return { model: model.data, scheduling: scheduling.data }
  const [issue] = scheduling.error.issues
  return fail(String(issue?.path[0] ?? ''), issue?.message ?? 'it is not valid')
}

function withAliases(
  own: Record<string, unknown>,
  entry: Readonly<Record<string, unknown>>,
  { fail, note }: Report,
): Record<string, unknown> {
  const wanted: Record<string, unknown> = { ...own }
  if (typeof wanted['node_selector'] === 'string') wanted['node_selector'] = selectorOf(wanted['node_selector'], fail)
  const { spread_all: isEverywhere, route_policy: policy } = entry
  if (isEverywhere === true) wanted['replicas'] = 'all'
  else if (isEverywhere !== undefined && isEverywhere !== null && isEverywhere !== false) fail('spread_all', 'it is true or false')
  if (policy !== undefined && policy !== null && policy !== '') {
    if (typeof policy !== 'string') return fail('route_policy', 'it is a word')
    wanted['policy'] ??= policy.includes('prefix') ? 'prefix' : 'least'
    if (!policy.includes('prefix')) note(`route_policy ${JSON.stringify(policy)} becomes policy: least, the least busy replica`)
  }
  // LocalAI writes zeros for limits that were not given.
  if (wanted['replicas'] === 'all') for (const key of ['min_replicas', 'max_replicas']) if (wanted[key] === 0) delete wanted[key]
  return wanted
}

/** LocalAI's answers have the selector as JSON in a text; an empty text is none. */
function selectorOf(text: string, fail: Report['fail']): unknown {
  try {
    return text.trim() === '' ? undefined : JSON.parse(text)
  } catch {
    return fail('node_selector', 'it is neither a mapping nor one written as JSON')
  }
}

/** Throws a SettingsError. */
function readSchedulingFile(path: string): SchedulingRules & Readonly<{ sha256: string }> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new SettingsError(`cannot read "${path}" (${String(errorCode(error) ?? 'unknown error')})`, { cause: error })
  }
  if (text.length > largestFile) throw new SettingsError(`"${path}" is larger than ${largestFile} characters`)
  return { ...parseSchedulingRules(text, path), sha256: createHash('sha256').update(text).digest('hex') }
}

/** The check of the setting. */
export const checkSchedulingFile = checkFile(readSchedulingFile)

/** At the start of a controller. An empty path changes nothing. */
export async function applySchedulingFile(path: string, { store, log }: { store: SchedulingRuleStore; log: Log }): Promise<void> {
  if (path === '') return
  const { rules, notes, sha256 } = readSchedulingFile(path)
  for (const note of notes) log.warn('scheduling file has a key without effect', { note })
  const { isNew, applied } = await store.sync({ sha256, rules })
  if (isNew || applied.length > 0) log.info('scheduling rules applied', { path, rules: rules.length, models: applied })
}
