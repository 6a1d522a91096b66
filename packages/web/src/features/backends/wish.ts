// A wish about a backend as it is filled in on a sheet, and how it is sent: to be shown what would happen, or for good.
import {
  backendRoutes,
  type BackendName,
  type DeleteQuery,
  type InstallRequest,
  type NodeId,
  type OperationId,
  type OperationView,
  type Selector,
  type UpgradeRequest,
} from '@muster/protocol'
import { call } from '../../api/client.ts'
import { parseSelector } from './parse-selector.ts'

export type Wish =
  | { readonly kind: 'backend.install'; readonly body: InstallRequest }
  | { readonly kind: 'backend.upgrade'; readonly name: BackendName; readonly body: UpgradeRequest }
  | { readonly kind: 'backend.delete'; readonly name: BackendName; readonly query: Pick<DeleteQuery, 'node' | 'force'> }

/** What is chosen stays chosen while another way of choosing is looked at. */
export interface Targets {
  readonly by: 'all' | 'nodes' | 'labels'
  readonly nodes: readonly NodeId[]
  readonly labels: string
}
export const everywhere: Targets = { by: 'all', nodes: [], labels: '' }

/** As a request names them; `problem`: why it can't be asked yet. */
export function namedTargets({ by, nodes, labels }: Targets): { nodes?: NodeId[]; selector?: Selector } | { problem: string } {
  if (by === 'all') return {}
  if (by === 'nodes') return nodes.length === 0 ? { problem: 'Choose at least one node.' } : { nodes: [...nodes] }
  return parseSelector(labels)
}

export async function dryRun(wish: Wish, signal: AbortSignal): Promise<OperationView> {
  const answer = await send(wish, { isDry: true, signal })
  if ('operation_id' in answer) throw new Error('the controller has made this wish instead of showing it')
  return answer
}

export async function make(wish: Wish): Promise<OperationId> {
  const answer = await send(wish, { isDry: false })
  return 'operation_id' in answer ? answer.operation_id : answer.id
}

function send(wish: Wish, { isDry, signal }: { isDry: boolean; signal?: AbortSignal }) {
  const more = { ...(signal === undefined ? {} : { signal }) }
  const dry = isDry ? { dry_run: true } : {}
  switch (wish.kind) {
    case 'backend.install':
      return call(backendRoutes.install, { body: { ...wish.body, ...dry }, ...more })
    case 'backend.upgrade':
      return call(backendRoutes.upgrade, { params: { name: wish.name }, body: { ...wish.body, ...dry }, ...more })
    case 'backend.delete':
      return call(backendRoutes.remove, { params: { name: wish.name }, query: { ...wish.query, dry_run: isDry }, ...more })
  }
}
