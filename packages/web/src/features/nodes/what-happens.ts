// What a change of a node does, said before it is done. Pure.
import type { NodeView, ReplicaView } from '@muster/protocol'
import { listNames, plural } from '../../format/amounts.ts'
import { countNames, sayCounted } from './node-words.ts'

type Affected = Pick<NodeView, 'name' | 'status' | 'node_type' | 'pending_ops'>

const sayReplicas = (replicas: readonly ReplicaView[]): string =>
  listNames(countNames(replicas.map(({ model }) => model)).map(sayCounted), 8)
/** Those that exited are only remembered. */
const living = (replicas: readonly ReplicaView[]): ReplicaView[] => replicas.filter(({ state }) => state !== 'exited')

export function whatDrainDoes(node: Affected, replicas: readonly ReplicaView[]): string[] {
  const here = living(replicas)
  return [
    'It gets no new work until you resume it; the mark survives restarts.',
    here.length === 0
      ? 'No replicas run here, so nothing has to move.'
      : `${plural(here.length, 'replica')} (${sayReplicas(here)}) ${here.length === 1 ? 'moves' : 'move'} to other nodes: each serves on until another one is up in its place. One that has no other place serves on here.`,
    node.pending_ops === 0
      ? 'It has no open wishes; those made from now on wait for the end of the drain.'
      : `${plural(node.pending_ops, 'open wish', 'open wishes')} not begun yet ${node.pending_ops === 1 ? 'waits' : 'wait'} for the end of the drain; what it is at work on goes on.`,
  ]
}

export function whatRemovalDoes(node: Affected, replicas: readonly ReplicaView[]): string[] {
  const here = living(replicas)
  return [
    here.length === 0
      ? 'No replicas run here, so none stop.'
      : `${plural(here.length, 'replica')} (${sayReplicas(here)}) ${here.length === 1 ? 'stops' : 'stop'} at once. Models that need them come up on other nodes, if there is room. To let requests end first, drain it instead.`,
    node.pending_ops === 0
      ? 'It has no open wishes.'
      : `${plural(node.pending_ops, 'open wish is', 'open wishes are')} cancelled (“node removed”).`,
    'Its key, labels and budget are forgotten. Backends and model files stay on its disk.',
    'Its worker ends, unless it was started with a join token that is still valid: then it comes back as a new node that waits for approval.',
  ]
}
