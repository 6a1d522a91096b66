// The interface for all HTTP requests to sources: registries, galleries and file servers.
import type { Readable } from 'node:stream'
import { FleetError } from '@muster/protocol'

export interface Outbound {
  /** Follows redirects of GET and HEAD, each checked like the first. Resolves with any status; rejects with a FleetError when no response arrives. */
  request(options: OutboundRequest): Promise<OutboundResponse>
  /** True when an operator listed the host of this URL, by name or by address. */
  isListed(url: URL): boolean
}

export interface OutboundRequest {
  readonly url: URL
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>
  readonly signal: AbortSignal
  readonly maxRedirects?: number
  readonly limits?: Partial<OutboundLimits>
  /** The name of the content in errors; default: its URL. */
  readonly what?: string
}

export interface OutboundLimits {
  /** From the start of the request, or the end of its body, to the head of the response. */
  readonly headersMs: number
  /** A body that delivers almost nothing for this long, while it is being read, has stalled. */
  readonly stallMs: number
}

export interface OutboundResponse {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** The URL after all redirects. */
  readonly url: URL
  /** Fails with a FleetError when it is cut off or stalls. Destroy it if it is not read. */
  readonly body: Readable
  bytes(maxBytes: number): Promise<Buffer>
  text(maxBytes: number): Promise<string>
}

/** A forbidden target. Retries do not help: an operator has to list the source or change it. */
export class SourceForbidden extends FleetError {
  readonly reason: string

  constructor(reason: string) {
    super({ code: 'invalid', retry: 'never', message: `source_forbidden: ${reason}`.slice(0, 2000) })
    this.name = 'SourceForbidden'
    this.reason = reason
  }
}

/** Without query and user info, which may hold signatures and passwords. */
export const formatUrl = (url: URL): string => `${url.protocol}//${url.host}${url.pathname}`.slice(0, 300)
