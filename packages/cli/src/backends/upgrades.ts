// Starts one upgrade for each backend that is meant. One that is refused stops no other; it is told, and counts as failed.
import { Option } from 'commander'
import { newId } from '@muster/host'
import {
  type BackendName,
  backendRoutes,
  type BackendView,
  type NodeId,
  type OperationId,
  type OperationView,
  Rollout,
  type Strategy,
} from '@muster/protocol'
import { parseBackendName } from '../arguments.ts'
import { CliError, reportError, usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/command.ts'
import { renderOperation } from '../operations/describe-operation.ts'
import { type FollowMode, followStarted, type StartedOperations } from '../operations/follow-started.ts'

export interface UpgradeOptions {
  /** Null: all that have an upgrade or drift. */
  readonly names: readonly BackendName[] | null
  readonly strategy: Strategy | undefined
  /** Null: as the server has it. */
  readonly rollout: Rollout | null
  readonly isDry: boolean
}

interface UpgradeTargets extends UpgradeOptions {
  readonly nodes?: readonly NodeId[]
}

export async function startUpgrades(call: ClientCall, wish: UpgradeTargets): Promise<SubmissionResponse | StartedOperations> {
  const [only, ...others] = wish.names ?? []
  if (only !== undefined && others.length === 0) return upgradeOne(call, only, wish)
  if (wish.names === null && wish.strategy === undefined && wish.rollout === null && wish.nodes === undefined) return upgradeAll(call)
  // The route for all takes none of it: then this is the list of those that are meant.
  const meant = wish.names?.map((name) => ({ name, nodes: wish.nodes })) ?? (await upgradable(call, wish))
  const operations: { backend: string; operation_id: unknown }[] = []
  const ids: StartedOperations['ids'][number][] = []
  for (const { name, nodes } of meant) {
    try {
      const { body } = await upgradeOne(call, name, { ...wish, ...(nodes === undefined ? {} : { nodes }) })
      if (!('operation_id' in body)) continue
      ids.push(body.operation_id)
      operations.push({ backend: name, operation_id: body.operation_id })
    } catch (error) {
      if (!(error instanceof CliError)) throw error
      reportError(error, call.shell.terminal)
    }
  }
  if (ids.length === 0 && meant.length > 0) throw new CliError('nothing was started')
  return { raw: { operations }, ids, hasFailed: ids.length < meant.length }
}

function upgradeOne(
  { api }: ClientCall,
  name: BackendName,
  { strategy = 'rolling', rollout, nodes, isDry }: UpgradeTargets,
): Promise<SubmissionResponse> {
  const body = {
    strategy,
    ...(rollout === null ? {} : { rollout }),
    ...(nodes === undefined ? {} : { nodes: [...nodes] }),
    ...(isDry ? { dry_run: true } : {}),
  }
  return api.call(backendRoutes.upgrade, { params: { name }, body, idempotencyKey: newId() })
}

async function upgradeAll({ api }: ClientCall): Promise<StartedOperations> {
  const { raw, body } = await api.call(backendRoutes.upgradeAll, { body: {}, idempotencyKey: newId() })
  return { raw, ids: body.operations.map((operation) => operation.operation_id) }
}

async function upgradable(
  { api }: ClientCall,
  { nodes }: UpgradeTargets,
): Promise<{ name: BackendName; nodes: readonly NodeId[] | undefined }[]> {
  const { body } = await api.call(backendRoutes.list)
  return body.backends
    .filter((backend) => backend.upgrade_available || backend.drift)
    .map((backend) => ({ name: parseBackendName(backend.name), nodes: nodes && nodesWith(backend, nodes) }))
    .filter((one) => one.nodes === undefined || one.nodes.length > 0)
}

/** Of these nodes, those that have it. */
const nodesWith = (backend: BackendView, nodes: readonly NodeId[]): readonly NodeId[] =>
  nodes.filter((id) => backend.nodes.some((node) => node.node_id === id))

// The options of an upgrade that goes from ring to ring.

export const rolloutOptions = (): Option[] => [
  new Option('--canary <nodes>', 'rolling: so many nodes are upgraded before all others (default: 1)'),
  new Option('--max-parallel <nodes>', 'rolling: so many at once after them (default: 1)'),
  new Option('--min-healthy-time <duration>', 'rolling: how long the new build has to be well before the next ring (default: 10s)'),
]

/** Null when nothing of it was said. */
export function rolloutOf({ option }: Pick<ClientCall, 'option'>, strategy: Strategy | undefined): Rollout | null {
  const given = {
    ...countOf('canary', option('canary')),
    ...countOf('max_parallel', option('maxParallel')),
    ...(option('minHealthyTime') === undefined ? {} : { min_healthy_time: option('minHealthyTime') }),
  }
  if (Object.keys(given).length === 0) return null
  if (strategy === 'recreate')
    throw usageError('--canary, --max-parallel and --min-healthy-time are for rolling upgrades: recreate has no rings')
  const parsed = Rollout.safeParse(given)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw usageError(`--${String(issue?.path[0]).replaceAll('_', '-')}: ${issue?.message ?? 'not valid'}`)
}

const countOf = (name: 'canary' | 'max_parallel', text: string | undefined): Record<string, number> =>
  text === undefined ? {} : { [name]: /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN }

// What a command does with the answer to a wish: shows what would be done, or follows what was started.

interface SubmissionResponse {
  readonly raw: unknown
  readonly body: { readonly operation_id: OperationId } | OperationView
}

export async function followSubmission(call: ClientCall, mode: FollowMode, { raw, body }: SubmissionResponse): Promise<void> {
  if ('operation_id' in body) return followStarted(call, mode, { raw, ids: [body.operation_id] })
  const { print, shell } = call
  print.result(raw, () => renderOperation(body, { now: shell.clock.now(), width: print.width }))
  print.remark('this is what would be done; nothing was started')
}
