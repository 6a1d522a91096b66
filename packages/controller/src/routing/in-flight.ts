// How many requests are under way at each replica (or for each model: whatever has an id), as leases: each is given back exactly once, by whoever disposes of it,
// on every way out of a request. Nothing is stored, so nothing is left behind by a process that dies.
export interface InFlight {
  open(id: string): Disposable
  of(id: string): number
  /** Those with at least one. */
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
