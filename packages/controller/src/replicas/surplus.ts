// What becomes of a replica that no load holds: its node was away, or its model changed. Pure.
import type { Load } from '@muster/protocol'
import type { ReplicaRecord } from '../store/replicas.ts'

export type Fate = Readonly<{ do: 'drain' } | { do: 'return'; to: Load }>

/** `loads`: of its model, as they are now. */
export function fateOf(replica: Pick<ReplicaRecord, 'revision' | 'opId'>, loads: readonly Load[]): Fate {
  const serving = loads.filter(({ purpose }) => purpose === 'serve')
  if (serving.length === 0) return { do: 'drain' }
  if (serving.some(({ revision }) => revision === replica.revision)) {
    const open = serving.find((load) => load.revision === replica.revision && isOpen(load))
    return open === undefined || replica.opId === null ? { do: 'drain' } : { do: 'return', to: open }
  }
  // Of an older revision: it gets nothing new, and takes the place that the new one needs.
  return { do: 'drain' }
}

const isOpen = ({ state }: Load): boolean => state === 'waiting' || state === 'failed' || state === 'installing'
