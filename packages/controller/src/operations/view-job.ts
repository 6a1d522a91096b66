// What is shown of an operation about a model: one job, whose nodes are as whoever does it said. Pure.
import { canReceiveCommands, type NodePresence, type OperationNodeStatus, type OperationState } from '@muster/protocol'
import type { JobRecord, ShownNodeRecord } from '../store/operations.ts'

/** `ofNodes`: what its nodes alone would say. While the job goes on there is more to it than nodes that are done. */
export function stateOfJob({ outcome, isWaiting }: JobRecord, ofNodes: OperationState): OperationState {
  return outcome ?? (isWaiting || ofNodes === 'background' ? 'background' : 'running')
}

export function messageOfJob({ outcome, message, cancelRequested }: JobRecord, ofNodes: string): string {
  if (outcome === null && cancelRequested) return 'cancelling'
  return message === '' ? ofNodes : message
}

/** A node that is away says so, whatever was last said of it: it goes on when it returns. */
export function rowOfJob(
  { shown, message }: Pick<ShownNodeRecord, 'shown' | 'message'>,
  node: NodePresence | null,
): { status: OperationNodeStatus; message: string } {
  if (node === null) return { status: 'cancelled', message: 'node removed' }
  if (shown === 'running_on_worker' || canReceiveCommands(node)) return { status: shown, message }
  return { status: 'queued', message: `node ${node.status}, will retry when healthy` }
}
