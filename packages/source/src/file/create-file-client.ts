// Single files by https: archives of backends, files of models. Retries while a server is busy.
import type { Clock, Log } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { howToAddCredentials } from '../credentials/url-credentials.ts'
import { type OpenedStream, openAtOffset } from '../outbound/open-at-offset.ts'
import { type Outbound, formatUrl } from '../outbound/outbound.ts'
import { createBusyRetry, type OnWait } from '../outbound/busy-retry.ts'
import { failureOfStatus } from '../outbound/status-failure.ts'

export interface OpenAt {
  readonly offset: number
  /** The tag of the partial content: other content is sent from its beginning. */
  readonly validator?: string | null
  /** Called at each attempt: a signature expires. Not sent to another origin. */
  readonly headers?: () => Promise<Readonly<Record<string, string>>>
  /** How to give credentials to this server, for errors; default: by the file of --credentials. */
  readonly howToLogIn?: string | undefined
  readonly signal: AbortSignal
  readonly onWait?: OnWait | undefined
}

/** Opens from `offset` on if the server supports it; otherwise from the beginning, as its answer states. */
export type FileClient = (url: URL, at: OpenAt) => Promise<OpenedStream>

export interface FileClientOptions {
  readonly outbound: Outbound
  readonly clock: Clock
  readonly log: Log
  readonly random?: () => number
}

export function createFileClient({ outbound, clock, log, random = Math.random }: FileClientOptions): FileClient {
  const patiently = createBusyRetry({ clock, log, random })
  return async (url, { offset, validator = null, headers, howToLogIn, signal, onWait }) => {
    const what = formatUrl(url)
    const hint = { howToLogIn: howToLogIn ?? howToAddCredentials(url) }
    const request: Parameters<typeof openAtOffset>[1]['request'] = async (rangeHeaders, okStatuses) => {
      const response = await outbound.request({ url, headers: { ...(await headers?.()), ...rangeHeaders }, signal, what })
      if (!okStatuses.includes(response.status))
        throw await failureOfStatus(response, { what, server: response.url.host, now: clock.now(), ...hint })
      const encoding = response.headers['content-encoding'] ?? 'identity'
      if (encoding === 'identity') return response
      response.body.destroy()
      // The encoded bytes are not those of the file.
      throw new FleetError({
        code: 'invalid',
        retry: 'never',
        message: `${what} is sent with the encoding ${encoding.slice(0, 40)}, which was not requested`,
      })
    }
    return await patiently(() => openAtOffset(offset, { request, what, validator }), signal, onWait)
  }
}
