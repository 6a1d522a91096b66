// What the requests of an image have in common: wrong statuses are failures, and what is unavailable is tried again.
import { createHash } from 'node:crypto'
import { Digest, FleetError } from '@muster/protocol'
import { type OpenedStream, openAtOffset } from '../outbound/open-at-offset.ts'
import type { OutboundResponse } from '../outbound/outbound.ts'
import { createBusyRetry, type RetryBusy } from '../outbound/busy-retry.ts'
import { statusFailure } from '../outbound/status-failure.ts'
import { largestDocument } from './manifest.ts'
import type { OciReference } from './reference.ts'
import { createRegistryApi, type RegistryOptions, type RegistryRequest } from './registry-api.ts'

export interface RegistryCall {
  /** One attempt; any status that is not fine throws. */
  send(request: RegistryRequest, expected: { what: string; fine: readonly number[] }): Promise<OutboundResponse>
  readonly patiently: RetryBusy
}

export function createRegistryCall(options: RegistryOptions & { readonly random?: () => number }): RegistryCall {
  const { clock, log, random = Math.random } = options
  const api = createRegistryApi(options)
  return {
    patiently: createBusyRetry({ clock, log, random }),
    async send(request, { what, fine }) {
      const response = await api.send(request)
      if (fine.includes(response.status)) return response
      throw await statusFailure(response, { what, who: 'the registry', now: clock.now() })
    },
  }
}

// A whole document from a registry: bounded, and what its digest says or not used at all.
export type DocumentRequest = Readonly<{ request: RegistryRequest; what: string; digest?: Digest; size?: number }>

export type FetchedDocument = Readonly<{ bytes: Buffer; digest: Digest; contentType: string | undefined }>

export async function fetchDocument(
  call: RegistryCall,
  { request, what, digest: wanted, size }: DocumentRequest,
): Promise<FetchedDocument> {
  return await call.patiently(async () => {
    const response = await call.send(request, { what, fine: [200] })
    const bytes = await response.bytes(Math.min(size ?? largestDocument, largestDocument))
    const digest = digestOf(bytes)
    // What the registry tells is never taken for the digest; where it differs, something broke on the way.
    const told = Digest.safeParse(response.headers['docker-content-digest']).data
    const right = wanted ?? told ?? digest
    if (digest !== right)
      throw new FleetError({ code: 'integrity', retry: 'backoff', message: `${what} should be ${right} and is ${digest}` })
    if (size !== undefined && size !== bytes.length)
      throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} has ${bytes.length} bytes, not ${size}` })
    return { bytes, digest, contentType: response.headers['content-type'] }
  }, request.signal)
}

const digestOf = (bytes: Uint8Array): Digest => Digest.parse(`sha256:${createHash('sha256').update(bytes).digest('hex')}`)

// A layer as a stream, from where an earlier attempt ended. Nothing is checked here: whoever writes it down does that.
type BlobRequest = Readonly<{ reference: OciReference; digest: Digest; offset: number; signal: AbortSignal }>

export async function openBlob(call: RegistryCall, { reference, digest, offset, signal }: BlobRequest): Promise<OpenedStream> {
  const what = `blob ${digest} of ${reference.registry}/${reference.repository}`
  const ask: Parameters<typeof openAtOffset>[1]['ask'] = (headers, fine) =>
    call.send({ reference, path: `blobs/${digest}`, headers, signal }, { what, fine })
  return await call.patiently(() => openAtOffset(offset, { ask, what }), signal)
}
