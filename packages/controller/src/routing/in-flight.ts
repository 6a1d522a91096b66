// How many requests are under way at each replica, as leases: each is given back exactly once, by whoever disposes of it,
// on every way out of a request. Nothing is stored, so nothing is left behind by a process that dies.
export interface InFlight {
  open(replicaId: string): Disposable
  of(replicaId: string): number
  total(): number
}

export function createInFlight(): InFlight {
  const counts = new Map<string, number>()
  let total = 0
  const add = (replicaId: string, change: 1 | -1): void => {
    const count = (counts.get(replicaId) ?? 0) + change
    if (count === 0) counts.delete(replicaId)
    else counts.set(replicaId, count)
    total += change
  }
  return {
    open(replicaId) {
      let isOpen = true
      add(replicaId, 1)
      return {
        [Symbol.dispose]() {
          if (!isOpen) return
          isOpen = false
          add(replicaId, -1)
        },
      }
    },
    of: (replicaId) => counts.get(replicaId) ?? 0,
    total: () => total,
  }
}
