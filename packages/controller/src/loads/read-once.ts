// What placement is decided on, read once: however often one decision asks, it asks about the same moment.
import type { PlaceDeps } from '../placement/candidates.ts'

type Facts = PlaceDeps['placement']

export function readOnce(store: Facts): Facts {
  let replicas: ReturnType<Facts['replicas']> | null = null
  const nodes = new Map<string, ReturnType<Facts['nodes']>>()
  return {
    replicas: () => (replicas ??= store.replicas()),
    nodes(wanted) {
      const key = JSON.stringify(wanted)
      const read = nodes.get(key) ?? store.nodes(wanted)
      nodes.set(key, read)
      return read
    },
  }
}
