// Archives by https. A server that is busy is given time, as a registry is.
import type { Clock, Log } from '@muster/host'
import { openFrom, type OpenedStream } from '../outbound/open-from.ts'
import type { Outbound } from '../outbound/outbound.ts'
import { createPatience } from '../outbound/patience.ts'
import { statusFailure } from '../outbound/status-failure.ts'

export interface ArchiveClient {
  /** From `offset` on if the server can; otherwise from the beginning, and the answer says so. */
  open(url: URL, at: { offset: number; signal: AbortSignal }): Promise<OpenedStream>
}

export interface ArchiveClientOptions {
  readonly outbound: Outbound
  readonly clock: Clock
  readonly log: Log
  readonly random?: () => number
}

export function createArchiveClient({ outbound, clock, log, random = Math.random }: ArchiveClientOptions): ArchiveClient {
  const patiently = createPatience({ clock, log, random })
  return {
    async open(url, { offset, signal }) {
      const what = url.href
      const ask: Parameters<typeof openFrom>[1] = async (headers, fine) => {
        const response = await outbound.request({ url, headers, signal })
        if (fine.includes(response.status)) return response
        throw await statusFailure(response, { what, who: response.url.host, now: clock.now() })
      }
      return await patiently(() => openFrom(offset, ask, what), signal)
    },
  }
}
