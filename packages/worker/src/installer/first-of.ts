import { FleetError } from '@muster/protocol'

/** The first that answers. What can't be mended by asking another (a wrong name, a bad digest) is told by the first. */
export async function firstSuccess<Source, T>(sources: readonly Source[], ask: (source: Source) => Promise<T>): Promise<T> {
  let first: unknown = null
  for (const source of sources) {
    try {
      return await ask(source)
    } catch (error) {
      first ??= error
      if (error instanceof FleetError && (error.failure.code === 'cancelled' || error.failure.code === 'incompatible')) throw error
    }
  }
  throw first
}
