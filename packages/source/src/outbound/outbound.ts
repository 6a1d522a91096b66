// What the only way out offers to everything that fetches.
import type { Readable } from 'node:stream'
import { FleetError } from '@muster/protocol'

export interface Outbound {
  /** Follows redirects of GET and HEAD, each checked like the first. Any status is an answer; no answer is a FleetError. */
  request(options: OutboundRequest): Promise<OutboundResponse>
  /** Whether an operator listed the host of this URL, by name or by address. */
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
}

export interface OutboundLimits {
  /** From the start, or from the end of the request's body, until the answer begins. */
  readonly headersMs: number
  /** A body that brings next to nothing for this long, while somebody wants to read it, has stalled. */
  readonly stallMs: number
}

export interface OutboundResponse {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Where the answer came from, after all redirects. */
  readonly url: URL
  /** Ends in a FleetError when it is cut off or stalls. Destroy it when it is not wanted. */
  readonly body: Readable
  bytes(maxBytes: number): Promise<Buffer>
  text(maxBytes: number): Promise<string>
}

// A way out that is closed on purpose. Trying again does not help; an operator has to list the source or change it.
export class SourceForbidden extends FleetError {
  constructor(reason: string) {
    super({ code: 'invalid', retry: 'never', message: `source_forbidden: ${reason}`.slice(0, 2000) })
    this.name = 'SourceForbidden'
  }
}

/** Queries carry signatures and user info carries passwords: neither is for a log or a message. */
export const formatUrl = (url: URL): string => `${url.protocol}//${url.host}${url.pathname}`.slice(0, 300)
