// Pure: what needs somebody, the most urgent first, each with what solves it.
import type { ModelName, ModelView, NodeId, NodeView, OperationId, OperationView } from '@muster/protocol'
import { formatBytes, plural } from '../../format.ts'

export interface FleetWorld {
  readonly nodes: readonly NodeView[]
  readonly models: readonly ModelView[]
  /** The newest first, also those that are over. */
  readonly operations: readonly OperationView[]
  readonly isBusOpen: boolean
  /** Since when a model has fewer replicas than it should, as far as this page knows. */
  readonly shortSince: ReadonlyMap<string, number>
  readonly now: number
}

export type Remedy =
  | { readonly type: 'approve'; readonly nodeId: NodeId; readonly name: string }
  | { readonly type: 'retry'; readonly operationId: OperationId; readonly name: string }
  | { readonly type: 'load'; readonly model: ModelName }
  | { readonly type: 'open_node'; readonly nodeId: NodeId; readonly name: string }
  | { readonly type: 'open_model'; readonly model: ModelName }
  | { readonly type: 'open_page'; readonly page: '/nodes' | '/models' | '/operations' }
  | { readonly type: 'secure_bus' }

export interface Attention {
  readonly key: string
  readonly tone: 'bad' | 'wait'
  readonly text: string
  readonly remedy: Remedy
}

/** Of one kind; the rest is counted. */
const shown = 5
const fullBytes = 5_000_000_000
const fullPart = 0.1
/** A replica that is on its way needs nobody. */
const patienceMs = 15_000

export function needsAttention(world: FleetWorld): Attention[] {
  return [
    ...few(pendingNodes(world), '/nodes'),
    ...few(deadLetters(world), '/operations'),
    ...few(failedModels(world), '/models'),
    ...few(awayNodes(world), '/nodes'),
    ...few(fullDisks(world), '/nodes'),
    ...few(shortModels(world), '/models'),
    ...openBus(world),
  ]
}

function few(all: readonly Attention[], page: Extract<Remedy, { type: 'open_page' }>['page']): Attention[] {
  const [first] = all
  if (first === undefined || all.length <= shown) return [...all]
  const rest = all.length - shown
  return [
    ...all.slice(0, shown),
    { key: `${first.key} and more`, tone: first.tone, text: `And ${rest} more of the same kind.`, remedy: { type: 'open_page', page } },
  ]
}

const pendingNodes = ({ nodes }: FleetWorld): Attention[] =>
  nodes
    .filter(({ status }) => status === 'pending')
    .map(({ id, name }) => ({
      key: `pending ${id}`,
      tone: 'wait',
      text: `${name} asks to join. Its key is its own: approve it if you know the machine.`,
      remedy: { type: 'approve', nodeId: id, name },
    }))

/** What was given up, unless somebody has wished something newer of the same thing there since. */
function deadLetters({ nodes, operations }: FleetWorld): Attention[] {
  const known = new Set<string>(nodes.map(({ id }) => id))
  const settled = new Set<string>()
  return operations.flatMap((operation) => {
    const subject = operation.backend ?? operation.model ?? ''
    const dead = operation.nodes.filter((node) => node.dead && known.has(node.node_id) && !settled.has(`${subject} ${node.node_id}`))
    for (const node of operation.nodes) settled.add(`${subject} ${node.node_id}`)
    const [first] = dead
    if (first === undefined) return []
    const where = dead.length === 1 ? first.node_name : plural(dead.length, 'node')
    const verb = operation.kind.split('.')[1] ?? ''
    return [
      {
        key: `dead ${operation.id}`,
        tone: 'bad',
        text: `The ${verb} of ${subject} was given up on ${where} after ${plural(first.attempts, 'attempt')}: ${first.error ?? first.message}`,
        remedy: { type: 'retry', operationId: operation.id, name: `the ${verb} of ${subject}` },
      } satisfies Attention,
    ]
  })
}

const failedModels = ({ models }: FleetWorld): Attention[] =>
  models
    .filter(({ state }) => state === 'failed')
    .map(({ name, failure }) => ({
      key: `failed ${name}`,
      tone: 'bad',
      text: `${name} failed to load: ${(failure?.message ?? 'no reason is known').replace(/\.$/, '')}.${failure?.next_retry_at === null ? ' It is not tried again by itself.' : ''}`,
      remedy: { type: 'load', model: name },
    }))

const awayNodes = ({ nodes }: FleetWorld): Attention[] =>
  nodes
    .filter(({ status }) => status === 'unhealthy' || status === 'offline')
    .map(({ id, name, status, status_reason: reason }) => ({
      key: `away ${id}`,
      tone: status === 'unhealthy' ? 'bad' : 'wait',
      text: `${name} is ${status}${reason === '' ? '' : `: ${reason}`}.`.replace(/\.\.$/, '.'),
      remedy: { type: 'open_node', nodeId: id, name },
    }))

const fullDisks = ({ nodes }: FleetWorld): Attention[] =>
  nodes.flatMap(({ id, name, status, resources: { available_disk: free, total_disk: total } }): Attention[] => {
    // What a node that is away said last may be long untrue.
    if (status !== 'healthy' && status !== 'draining') return []
    if (free === null || (free >= fullBytes && (total === null || free >= total * fullPart))) return []
    const left = `${formatBytes(free)}${total === null ? '' : ` of ${formatBytes(total)}`} are free`
    return [
      {
        key: `disk ${id}`,
        tone: 'wait',
        text: `The disk of ${name} is almost full: ${left}.`,
        remedy: { type: 'open_node', nodeId: id, name },
      },
    ]
  })

const isShort = ({ state, replicas_ready: ready, replicas_desired: desired }: ModelView): boolean => state !== 'failed' && ready < desired

const shortModels = ({ models, shortSince, now }: FleetWorld): Attention[] =>
  models
    .filter((model) => isShort(model) && now - (shortSince.get(model.name) ?? now) >= patienceMs)
    .map(({ name, replicas_ready: ready, replicas_desired: desired }) => ({
      key: `short ${name}`,
      tone: 'wait',
      text: `${name} has ${ready} of ${plural(desired, 'replica')}.`,
      remedy: { type: 'open_model', model: name },
    }))

/** Since when each model is short of replicas; those that are not any more are forgotten. */
export function noteShort(before: ReadonlyMap<string, number>, models: readonly ModelView[], now: number): ReadonlyMap<string, number> {
  const after = new Map(models.filter(isShort).map(({ name }) => [name as string, before.get(name) ?? now]))
  const isSame = after.size === before.size && [...after.keys()].every((name) => before.has(name))
  return isSame ? before : after
}

const openBus = ({ isBusOpen }: FleetWorld): Attention[] =>
  isBusOpen
    ? [
        {
          key: 'bus',
          tone: 'wait',
          text: 'The bus is open: whoever can reach it can speak for every node, because nodes have no credentials of their own on it.',
          remedy: { type: 'secure_bus' },
        },
      ]
    : []
