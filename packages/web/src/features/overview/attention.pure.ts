// Finds problems that need attention, the most urgent first, each with its remedy.
import {
  formatBytes,
  type ModelName,
  type ModelView,
  type NodeId,
  type NodeView,
  type OperationId,
  type OperationView,
} from '@muster/protocol'
import { plural } from '../../format.ts'
import { isArriving } from '../nodes/node-words.pure.ts'

export interface FleetState {
  readonly nodes: readonly NodeView[]
  readonly models: readonly ModelView[]
  /** Newest first, including finished ones. */
  readonly operations: readonly OperationView[]
  readonly isBusOpen: boolean
  /** Since when each model has had too few replicas, as observed by this page. */
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

/** Listed problems of one kind; further ones are counted. */
const maxListed = 5
const minFreeBytes = 5_000_000_000
const minFreeShare = 0.1
/** A starting replica is no problem yet. */
const graceMs = 15_000

export function findProblems(state: FleetState): Attention[] {
  return [
    ...limit(pendingNodes(state), '/nodes'),
    ...limit(deadLetters(state), '/operations'),
    ...limit(failedModels(state), '/models'),
    ...limit(unreachableNodes(state), '/nodes'),
    ...limit(fullDisks(state), '/nodes'),
    ...limit(shortModels(state), '/models'),
    ...openBus(state),
  ]
}

function limit(all: readonly Attention[], page: Extract<Remedy, { type: 'open_page' }>['page']): Attention[] {
  const [first] = all
  if (first === undefined || all.length <= maxListed) return [...all]
  const rest = all.length - maxListed
  return [
    ...all.slice(0, maxListed),
    { key: `${first.key} and more`, tone: first.tone, text: `And ${rest} more.`, remedy: { type: 'open_page', page } },
  ]
}

const pendingNodes = ({ nodes }: FleetState): Attention[] =>
  nodes
    .filter(({ status }) => status === 'pending')
    .map(({ id, name }) => ({
      key: `pending ${id}`,
      tone: 'wait',
      text: `${name} is waiting for approval. Approve only machines that you know.`,
      remedy: { type: 'approve', nodeId: id, name },
    }))

/** Intents that ran out of attempts, unless they were dismissed or a newer operation concerns the same backend on that node. */
function deadLetters({ nodes, operations }: FleetState): Attention[] {
  const known = new Set<string>(nodes.map(({ id }) => id))
  const settled = new Set<string>()
  return operations.flatMap((operation) => {
    const subject = operation.backend ?? operation.model ?? ''
    const isDismissed = operation.dismissed_at !== undefined
    const dead = operation.nodes.filter(
      (node) => node.dead && !isDismissed && known.has(node.node_id) && !settled.has(`${subject} ${node.node_id}`),
    )
    for (const node of operation.nodes) settled.add(`${subject} ${node.node_id}`)
    const [first] = dead
    if (first === undefined) return []
    const where = dead.length === 1 ? first.node_name : plural(dead.length, 'node')
    const verb = operation.kind.split('.')[1] ?? ''
    return [
      {
        key: `dead ${operation.id}`,
        tone: 'bad',
        text: `${verb.charAt(0).toUpperCase()}${verb.slice(1)} of ${subject} failed on ${where} after ${plural(first.attempts, 'attempt')}: ${first.error ?? first.message}`,
        remedy: { type: 'retry', operationId: operation.id, name: `${verb} of ${subject}` },
      } satisfies Attention,
    ]
  })
}

const failedModels = ({ models }: FleetState): Attention[] =>
  models
    .filter(({ state }) => state === 'failed')
    .map(({ name, failure }) => ({
      key: `failed ${name}`,
      tone: 'bad',
      text: `${name} failed to load: ${(failure?.message ?? 'unknown reason').replace(/\.$/, '')}.${failure?.next_retry_at === null ? ' No automatic retry.' : ''}`,
      remedy: { type: 'load', model: name },
    }))

const unreachableNodes = ({ nodes }: FleetState): Attention[] =>
  nodes
    .filter((node) => (node.status === 'unhealthy' || node.status === 'offline') && !isArriving(node))
    .map(({ id, name, status, status_reason: reason }) => ({
      key: `unreachable ${id}`,
      tone: status === 'unhealthy' ? 'bad' : 'wait',
      text: `${name} is ${status}${reason === '' ? '' : `: ${reason}`}.`.replace(/\.\.$/, '.'),
      remedy: { type: 'open_node', nodeId: id, name },
    }))

const fullDisks = ({ nodes }: FleetState): Attention[] =>
  nodes.flatMap(({ id, name, status, resources: { available_disk: free, total_disk: total } }): Attention[] => {
    // The last report of an unreachable node is outdated.
    if (status !== 'healthy' && status !== 'draining') return []
    if (free === null || (free >= minFreeBytes && (total === null || free >= total * minFreeShare))) return []
    const remaining = `${formatBytes(free)}${total === null ? '' : ` of ${formatBytes(total)}`} free`
    return [
      {
        key: `disk ${id}`,
        tone: 'wait',
        text: `${name} is low on disk space: ${remaining}.`,
        remedy: { type: 'open_node', nodeId: id, name },
      },
    ]
  })

const isShort = ({ state, replicas_ready: ready, replicas_desired: desired }: ModelView): boolean => state !== 'failed' && ready < desired

const shortModels = ({ models, shortSince, now }: FleetState): Attention[] =>
  models
    .filter((model) => isShort(model) && now - (shortSince.get(model.name) ?? now) >= graceMs)
    .map(({ name, replicas_ready: ready, replicas_desired: desired }) => ({
      key: `short ${name}`,
      tone: 'wait',
      text: `${name} has ${ready} of ${plural(desired, 'replica')} ready.`,
      remedy: { type: 'open_model', model: name },
    }))

/** Records since when each model has had too few replicas; drops models that recovered. */
export function trackShortfalls(
  before: ReadonlyMap<string, number>,
  models: readonly ModelView[],
  now: number,
): ReadonlyMap<string, number> {
  const after = new Map(models.filter(isShort).map(({ name }) => [name as string, before.get(name) ?? now]))
  const isSame = after.size === before.size && [...after.keys()].every((name) => before.has(name))
  return isSame ? before : after
}

const openBus = ({ isBusOpen }: FleetState): Attention[] =>
  isBusOpen
    ? [
        {
          key: 'bus',
          tone: 'wait',
          text: 'The bus is open: any client that can reach it can impersonate nodes, because nodes have no credentials of their own.',
          remedy: { type: 'secure_bus' },
        },
      ]
    : []
