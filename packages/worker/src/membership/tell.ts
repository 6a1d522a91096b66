// What the log says of a worker's life in its cluster: each turn once.
import { withoutCredentials } from '@muster/bus'
import type { Log } from '@muster/host'
import { unreachable, type NodeId } from '@muster/protocol'
import type { Membership } from './machine.ts'

export function tell(log: Log, now: Membership, before: Membership | null): void {
  if (now.state === before?.state) return
  switch (now.state) {
    case 'registering':
      if (before !== null) log.warn('this node was removed from the cluster; joining again as a new one')
      return
    case 'registered':
      log.info('registered', { node_id: now.nodeId })
      // Said here already: the first session of a node that is not approved may take half a minute.
      return now.isApproved ? undefined : tellOfApproval(log, now.nodeId)
    case 'pending':
      return before?.state === 'registered' && !before.isApproved ? undefined : tellOfApproval(log, now.nodeId)
    case 'joined':
      return log.info('joined the cluster', { node_id: now.nodeId, bus: withoutCredentials(now.session.bus.url) })
    case 'ended':
      // Said by whoever started the worker, who gets the sentence as its outcome.
      return
    default:
      return unreachable(now)
  }
}

const tellOfApproval = (log: Log, nodeId: NodeId): void =>
  log.info('this node waits until an administrator approves it', { node_id: nodeId, run: `muster nodes approve ${nodeId}` })
