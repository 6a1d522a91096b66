// Whose turn it is: what shares a name with something earlier waits for its end, everything else runs at
// once. The order is that of the calls.

export interface Turn {
  /** Rejects with the signal's reason when that aborts first. */
  readonly come: Promise<void>
  /** Lets the next one go, whether or not it had come. */
  end(): void
}

export interface Turns {
  take(names: readonly string[], signal: AbortSignal): Turn
}

type Place = { readonly names: ReadonlySet<string>; go: (() => void) | null }

export function createTurns(): Turns {
  const places: Place[] = []
  const isFree = (place: Place): boolean => {
    for (const earlier of places) {
      if (earlier === place) return true
      if (!earlier.names.isDisjointFrom(place.names)) return false
    }
    return true
  }
  const leave = (place: Place): void => {
    const index = places.indexOf(place)
    if (index < 0) return
    places.splice(index, 1)
    for (const waiting of places) if (waiting.go !== null && isFree(waiting)) waiting.go()
  }
  return {
    take(names, signal) {
      const place: Place = { names: new Set(names), go: null }
      places.push(place)
      const come = new Promise<void>((resolve, reject) => {
        const onAbort = (): void => {
          leave(place)
          reject(signal.reason)
        }
        place.go = () => {
          place.go = null
          signal.removeEventListener('abort', onAbort)
          resolve()
        }
        if (signal.aborted) return onAbort()
        signal.addEventListener('abort', onAbort, { once: true })
        if (isFree(place)) place.go()
      })
      // Whoever called it off may not be waiting yet.
      come.catch(() => undefined)
      return { come, end: () => leave(place) }
    },
  }
}
