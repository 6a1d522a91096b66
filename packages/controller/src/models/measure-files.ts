// Measures the files of a gallery entry by the headers of their servers, to choose among builds of a model.
import { type Clock, inLanes, settlesWithin } from '@muster/host'
import type { ConfigFile } from '@muster/protocol'
import { type FileOrigins, locateFile, type Outbound, parseModelUri } from '@muster/source'

export interface MeasureDeps {
  readonly outbound: Outbound
  readonly origins: FileOrigins
  readonly clock: Clock
}

/** The size of all files; null when one of them is unknown. */
export type MeasureFiles = (files: readonly ConfigFile[], signal: AbortSignal) => Promise<number | null>

const atOnce = 4
const waitMs = 5_000
/** More are not measured: no choice is worth so many requests. */
const mostFiles = 16

export function createMeasureFiles({ outbound, origins, clock }: MeasureDeps): MeasureFiles {
  const sizeOf = async ({ uri }: ConfigFile, signal: AbortSignal): Promise<number | null> => {
    const source = parseModelUri(uri)
    if (source.kind !== 'web' && source.kind !== 'hf') return null
    const { url, headers } = locateFile(source, { origins, clock })
    const response = await outbound.request({ url, method: 'HEAD', headers: (await headers?.()) ?? {}, signal })
    response.body.destroy()
    const size = Number(response.headers['content-length'] ?? Number.NaN)
    return response.status === 200 && Number.isSafeInteger(size) && size > 0 ? size : null
  }
  const measure = async (file: ConfigFile, signal: AbortSignal): Promise<number | null> => {
    const done = new AbortController()
    const size = sizeOf(file, AbortSignal.any([signal, done.signal])).catch(() => null)
    const isKnown = await settlesWithin({ clock, ms: waitMs, signal }, size)
    if (!isKnown) done.abort()
    return isKnown ? await size : null
  }
  return async (files, signal) => {
    if (files.length === 0 || files.length > mostFiles) return null
    const sizes = await inLanes(files, { atOnce, signal }, (file, lane) => measure(file, lane.signal))
    return sizes.reduce<number | null>((sum, size) => (sum === null || size === null ? null : sum + size), 0)
  }
}
