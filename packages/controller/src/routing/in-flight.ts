// Counts open requests per id (a replica or a model) with disposable leases, so that every exit of a request gives its
// lease back exactly once. Counts are in memory only: a crash leaves nothing behind.
export interface InFlight {
  open(id: string): Disposable
  of(id: string): number
  /** Ids with at least one open request. */
  ids(): Iterable<string>
  total(): number
}

export function createInFlight(): InFlight {
  const counts = new Map<string, number>()
  let total = 0
  const add = (id: string, change: 1 | -1): void => {
    const count = (counts.get(id) ?? 0) + change
    if (count === 0) counts.delete(id)
    else counts.set(id, count)
    total += change
  }
  return {
    open(id) {
      let isOpen = true
      add(id, 1)
      return {
        [Symbol.dispose]() {
          if (!isOpen) return
          isOpen = false
          add(id, -1)
        },
      }
    },
    of: (id) => counts.get(id) ?? 0,
    ids: () => counts.keys(),
    total: () => total,
  }
}
