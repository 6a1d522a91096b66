// What unloading and deleting a model mean, line by line. Pure.
import type { ModelView, ReplicaView } from '@muster/protocol'
import { listNames, plural } from '../../format/amounts.ts'

function endOfReplicas(replicas: readonly ReplicaView[]): string {
  const live = replicas.filter(({ state }) => state !== 'exited')
  if (live.length === 0) return 'Nothing of it runs now.'
  const nodes = listNames([...new Set(live.map(({ node_name: name }) => name))].toSorted(), 5)
  const inFlight = live.reduce((sum, { in_flight: count }) => sum + count, 0)
  const busy =
    inFlight === 0 ? 'nothing is in flight' : `${plural(inFlight, 'request')} in flight ${inFlight === 1 ? 'is' : 'are'} finished first`
  return `${plural(live.length, 'replica')} on ${nodes} ${live.length === 1 ? 'ends' : 'end'}; ${busy}.`
}

export function unloadConsequences({ config: { scheduling } }: ModelView, replicas: readonly ReplicaView[]): string[] {
  const min = scheduling.min_replicas ?? 0
  const against = min > 0 ? `, also against its minimum of ${min}` : scheduling.replicas === 'all' ? ', also against “replicas: all”' : ''
  return [
    endOfReplicas(replicas),
    `It is held at none${against}, and over restarts, until the next load, request or change of its scheduling.`,
    'Its configuration and its files stay.',
  ]
}

export function deleteConsequences({ name, config: { files } }: ModelView, replicas: readonly ReplicaView[]): string[] {
  return [
    `Its configuration goes at once: from then on requests for ${name} are refused as unknown.`,
    endOfReplicas(replicas),
    ...(files.length === 0
      ? []
      : [
          `Its ${plural(files.length, 'file')} ${files.length === 1 ? 'is' : 'are'} deleted on every node, unless another model needs them; a node that is away does it when it returns.`,
        ]),
    'This can’t be undone.',
  ]
}
