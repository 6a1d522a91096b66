// Converts a rule of LocalAI's scheduling to the scheduling of a model.
import { Scheduling } from '@muster/protocol'
import { isMapping, type Mapping, textOf } from './site.ts'

export interface ConvertedRule {
  readonly model: string
  readonly scheduling: Scheduling
  readonly losses: readonly Readonly<{ key: string; message: string }>[]
}

const taken: ReadonlySet<string> = new Set([
  'model_name',
  'node_selector',
  'min_replicas',
  'max_replicas',
  'replicas',
  'spread_all',
  'route_policy',
])
/** Columns of LocalAI's own records. */
const ignored: ReadonlySet<string> = new Set(['id', 'created_at', 'updated_at', 'unsatisfiable_until', 'unsatisfiable_ticks'])
const policies: Readonly<Record<string, 'prefix' | 'least'>> = {
  prefix_cache: 'prefix',
  prefix: 'prefix',
  round_robin: 'least',
  least_loaded: 'least',
  least: 'least',
}

export function toScheduling(rule: Mapping): ConvertedRule {
  const losses = Object.entries(rule)
    .filter(([key, value]) => !taken.has(key) && !ignored.has(key) && isSet(value))
    .map(([key]) => ({ key, message: 'no effect: requests follow `policy`, bounded by the load of replicas' }))
  const { selector, problem } = readSelector(rule['node_selector'])
  if (problem !== null) losses.push({ key: 'node_selector', message: problem })
  const policy = policies[textOf(rule['route_policy'])]
  if (policy === undefined && isSet(rule['route_policy']))
    losses.push({ key: 'route_policy', message: `no policy ${JSON.stringify(rule['route_policy'])} here; the default is prefix` })
  const given = {
    ...(selector === null ? {} : { node_selector: selector }),
    ...(policy === undefined ? {} : { policy }),
    ...(rule['replicas'] === 'all' || rule['spread_all'] === true ? { replicas: 'all' } : replicaNumbers(rule)),
  }
  const parsed = Scheduling.safeParse(given)
  if (parsed.success) return { model: textOf(rule['model_name']), scheduling: parsed.data, losses }
  const [issue] = parsed.error.issues
  const message = `not taken over: ${issue?.path.map(String).join('.') ?? ''} ${issue?.message ?? 'not valid'}`
  return { model: textOf(rule['model_name']), scheduling: {}, losses: [...losses, { key: 'rule', message }] }
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null && value !== '' && value !== 0 && value !== false

/** A minimum above the maximum raises the maximum; 0 is no limit in both systems. */
function replicaNumbers({ min_replicas: min, max_replicas: max }: Mapping): Mapping {
  const least = typeof min === 'number' ? min : undefined
  const most = typeof max === 'number' ? max : undefined
  return {
    ...(least === undefined ? {} : { min_replicas: least }),
    ...(most === undefined ? {} : { max_replicas: most === 0 ? 0 : Math.max(most, least ?? 0) }),
  }
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A mapping of texts, also as JSON text, as LocalAI's API answers it. */
function readSelector(value: unknown): { selector: Readonly<Record<string, string>> | null; problem: string | null } {
  const given = typeof value === 'string' && value !== '' ? parseText(value) : value
  if (!isSet(given)) return { selector: null, problem: null }
  if (!isMapping(given) || Object.values(given).some((each) => typeof each !== 'string'))
    return { selector: null, problem: 'it is not a mapping of labels to texts' }
  const entries = Object.entries(given).map(([key, each]) => [key, String(each)] as const)
  return { selector: entries.length === 0 ? null : Object.fromEntries(entries), problem: null }
}
