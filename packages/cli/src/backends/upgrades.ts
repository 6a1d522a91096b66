// Submits one upgrade per backend. A refused one is reported and counts as failed; it does not stop the others.
import { Option } from 'commander'
import { newId } from '@muster/host'
import {
  type BackendName,
  backendRoutes,
  type NodeId,
  type OperationId,
  type OperationView,
  Rollout,
  type Strategy,
} from '@muster/protocol'
import { CliError, reportError, usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/command.ts'
import { renderOperation } from '../operations/describe-operation.ts'
import { type FollowMode, followStarted, type StartedOperations } from '../operations/follow-started.ts'

export interface UpgradeOptions {
  /** Null: all with an upgrade or drift. */
  readonly names: readonly BackendName[] | null
  readonly strategy: Strategy | undefined
  /** Null: the server's default. */
  readonly rollout: Rollout | null
  readonly isDry: boolean
}

interface UpgradeTargets extends UpgradeOptions {
  readonly nodes?: readonly NodeId[]
}

/** A dry run of all upgrades. */
interface PlannedOperations {
  readonly raw: unknown
  readonly plans: readonly OperationView[]
}

export async function startUpgrades(
  call: ClientCall,
  options: UpgradeTargets,
): Promise<SubmissionResponse | StartedOperations | PlannedOperations> {
  if (options.names === null) return await upgradeAll(call, options)
  const [only, ...others] = options.names
  if (only !== undefined && others.length === 0) return upgradeOne(call, only, options)
  const operations: { backend: string; operation_id: unknown }[] = []
  const ids: StartedOperations['ids'][number][] = []
  for (const name of options.names) {
    try {
      const { body } = await upgradeOne(call, name, options)
      if (!('operation_id' in body)) continue
      ids.push(body.operation_id)
      operations.push({ backend: name, operation_id: body.operation_id })
    } catch (error) {
      if (!(error instanceof CliError)) throw error
      reportError(error, call.shell.terminal)
    }
  }
  if (ids.length === 0) throw new CliError('no upgrade was started')
  return { raw: { operations }, ids, hasFailed: ids.length < options.names.length }
}

const bodyOf = ({ strategy = 'rolling', rollout, nodes, isDry }: UpgradeTargets) => ({
  strategy,
  ...(rollout === null ? {} : { rollout }),
  ...(nodes === undefined ? {} : { nodes: [...nodes] }),
  ...(isDry ? { dry_run: true } : {}),
})

const upgradeOne = ({ api }: ClientCall, name: BackendName, targets: UpgradeTargets): Promise<SubmissionResponse> =>
  api.call(backendRoutes.upgrade, { params: { name }, body: bodyOf(targets), idempotencyKey: newId() })

async function upgradeAll({ api }: ClientCall, targets: UpgradeTargets): Promise<StartedOperations | PlannedOperations> {
  const { raw, body } = await api.call(backendRoutes.upgradeAll, { body: bodyOf(targets), idempotencyKey: newId() })
  const plans = body.operations.filter((operation) => 'id' in operation)
  if (targets.isDry && plans.length > 0) return { raw, plans }
  return { raw, ids: body.operations.flatMap((operation) => ('operation_id' in operation ? [operation.operation_id] : [])) }
}

export const rolloutOptions = (): Option[] => [
  new Option('--canary <nodes>', 'rolling: the number of nodes that are upgraded before all others (default: 1)'),
  new Option('--max-parallel <nodes>', 'rolling: the number of nodes upgraded at once after them (default: 1)'),
  new Option('--min-healthy-time <duration>', 'rolling: how long the new build must be healthy before the next ring (default: 10s)'),
]

/** Null when no such option is given. */
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

interface SubmissionResponse {
  readonly raw: unknown
  readonly body: { readonly operation_id: OperationId } | OperationView
}

/** Shows the plan of a dry run, or follows the operation that was started. */
export async function followSubmission(call: ClientCall, mode: FollowMode, { raw, body }: SubmissionResponse): Promise<void> {
  if ('operation_id' in body) return followStarted(call, mode, { raw, ids: [body.operation_id] })
  showPlans(call, { raw, plans: [body] })
}

export function showPlans({ print, shell }: ClientCall, { raw, plans }: PlannedOperations): void {
  const options = { now: shell.clock.now(), width: print.width }
  print.result(raw, () => plans.map((plan) => renderOperation(plan, options)).join('\n'))
  print.remark('dry run: nothing was started')
}
