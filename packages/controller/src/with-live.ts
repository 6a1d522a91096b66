// Dependencies whose values are read at each use, for settings that change at run time.

type Reads = Readonly<Record<string, () => unknown>>
type Live<R extends Reads> = { readonly [K in keyof R]: ReturnType<R[K]> }

/** Copying the result (`{ ...result }`) fixes the values of that moment. */
export function withLive<B extends object, R extends Reads>(base: B, reads: R): B & Live<R> {
  const getters = Object.fromEntries(Object.entries(reads).map(([name, get]) => [name, { get, enumerable: true }]))
  // Each property was just defined with the type of its function, which the type of defineProperties does not show.
  return Object.defineProperties({ ...base }, getters) as B & Live<R>
}
