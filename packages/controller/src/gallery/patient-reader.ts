// Reads galleries for callers that wait a moment each. A reading has no deadline: its source has a limit for stalls, its text a
// limit for its size. Until then it continues in the background, so that a slow network or processor delays a gallery and does
// not make every reading begin anew.
import { type Clock, settlesWithin } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { GalleryAddress } from '@muster/source'

export interface PatientReaderDeps<T> {
  readonly read: (address: GalleryAddress, signal: AbortSignal) => Promise<T>
  readonly stopping: AbortSignal
  readonly clock: Clock
}

/** How long a caller waits. */
const waitMs = 10_000
/** Older content is not shown while a newer reading takes its time. */
const keepMs = 600_000
/** More than a cluster has. */
const mostKept = 64

/** `isLate`: a caller gave up before its end, so the next one gets the result. */
type Reading<T> = { readonly result: Promise<T>; readonly startedAt: number; isLate: boolean; isEnded: boolean }

/** Throws `unavailable` while the first reading takes its time. Later ones show the last complete one meanwhile. */
export function createPatientReader<T>({ read, stopping, clock }: PatientReaderDeps<T>): (address: GalleryAddress) => Promise<T> {
  const readings = new Map<string, Reading<T>>()
  const complete = new Map<string, { readonly content: T; readonly startedAt: number }>()

  const start = (key: string, address: GalleryAddress): Reading<T> => {
    const startedAt = clock.monotonic()
    const reading: Reading<T> = { result: read(address, stopping), startedAt, isLate: false, isEnded: false }
    readings.set(key, reading)
    const end = (): void => {
      reading.isEnded = true
      if (!reading.isLate) readings.delete(key)
    }
    reading.result.then((content) => {
      if (complete.size >= mostKept) complete.clear()
      complete.set(key, { content, startedAt })
      end()
    }, end)
    return reading
  }

  return async (address) => {
    const key = JSON.stringify([address.name, address.url])
    const isFresh = ({ startedAt }: { readonly startedAt: number }): boolean => clock.monotonic() - startedAt <= keepMs
    const known = readings.get(key)
    if (known?.isEnded === true) readings.delete(key)
    const isUsable = known !== undefined && (!known.isEnded || isFresh(known))
    const reading = isUsable ? known : start(key, address)
    if (reading.isEnded || (await settlesWithin({ clock, ms: waitMs, signal: stopping }, reading.result))) return await reading.result
    stopping.throwIfAborted()
    reading.isLate = true
    const last = complete.get(key)
    if (last !== undefined && isFresh(last)) return last.content
    const seconds = Math.round((clock.monotonic() - reading.startedAt) / 1000)
    const message = `the gallery ${address.name} is still being read, for ${seconds} s now; it counts once it is complete`
    throw new FleetError({ code: 'unavailable', retry: 'backoff', message })
  }
}
