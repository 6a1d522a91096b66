// Starts one upgrade for each backend that is meant. One that is refused stops no other; it is told, and counts as failed.
import { newId } from '@muster/host'
import { type BackendName, backendRoutes, type NodeId, type Rollout, type Strategy, type BackendView } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ClientCall } from '../commands/client-command.ts'
import type { StartedOperations } from '../operations/follow-started.ts'
import { reportError } from '../report-error.ts'
import type { SubmissionResponse } from './answer-wish.ts'
import { parseBackendName } from './backend-name.ts'

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

function upgradeOne({ api }: ClientCall, name: BackendName, { strategy = 'rolling', rollout, nodes, isDry }: UpgradeTargets): Promise<SubmissionResponse> {
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

async function upgradable({ api }: ClientCall, { nodes }: UpgradeTargets): Promise<{ name: BackendName; nodes: readonly NodeId[] | undefined }[]> {
  const { body } = await api.call(backendRoutes.list)
  return body.backends
    .filter((backend) => backend.upgrade_available || backend.drift)
    .map((backend) => ({ name: parseBackendName(backend.name), nodes: nodes && nodesWith(backend, nodes) }))
    .filter((one) => one.nodes === undefined || one.nodes.length > 0)
}

/** Of these nodes, those that have it. */
const nodesWith = (backend: BackendView, nodes: readonly NodeId[]): readonly NodeId[] =>
  nodes.filter((id) => backend.nodes.some((node) => node.node_id === id))
