// The requests of an image: unexpected statuses are failures, and unavailable servers are retried.
import { Digest, FleetError } from '@muster/protocol'
import { type OpenedStream, openAtOffset } from '../outbound/open-at-offset.ts'
import type { OutboundResponse } from '../outbound/outbound.ts'
import { createBusyRetry, type RetryBusy } from '../outbound/busy-retry.ts'
import { statusFailure } from '../outbound/status-failure.ts'
import { digestOf } from '../pack/image-layout.ts'
import { largestDocument } from './manifest.ts'
import type { OciReference } from './reference.ts'
import { createRegistryApi, type RegistryOptions, type RegistryRequest } from './registry-api.ts'

export interface RegistryCall {
  /** One attempt; throws on an unexpected status. */
  send(request: RegistryRequest, expected: { what: string; fine: readonly number[] }): Promise<OutboundResponse>
  readonly patiently: RetryBusy
}

export function createRegistryCall(options: RegistryOptions & { readonly random?: () => number }): RegistryCall {
  const { clock, log, random = Math.random } = options
  const sendOnce = createRegistryApi(options)
  return {
    patiently: createBusyRetry({ clock, log, random }),
    async send(request, { what, fine }) {
      const response = await sendOnce(request)
      if (fine.includes(response.status)) return response
      throw await statusFailure(response, { what, who: 'the registry', now: clock.now() })
    },
  }
}

// Fetches a whole document: bounded, and only accepted with the right digest.
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
    // The digest in the header is never trusted; when it differs, the transfer failed.
    const told = Digest.safeParse(response.headers['docker-content-digest']).data
    const right = wanted ?? told ?? digest
    if (digest !== right)
      throw new FleetError({ code: 'integrity', retry: 'backoff', message: `${what} should be ${right} and is ${digest}` })
    if (size !== undefined && size !== bytes.length)
      throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} has ${bytes.length} bytes, not ${size}` })
    return { bytes, digest, contentType: response.headers['content-type'] }
  }, request.signal)
}

// Opens a layer as a stream, from the end of an earlier attempt. The consumer verifies the digest.
type BlobRequest = Readonly<{ reference: OciReference; digest: Digest; offset: number; signal: AbortSignal }>

export async function openBlob(call: RegistryCall, { reference, digest, offset, signal }: BlobRequest): Promise<OpenedStream> {
  const what = `blob ${digest} of ${reference.registry}/${reference.repository}`
  const ask: Parameters<typeof openAtOffset>[1]['ask'] = (headers, fine) =>
    call.send({ reference, path: `blobs/${digest}`, headers, signal }, { what, fine })
  return await call.patiently(() => openAtOffset(offset, { ask, what }), signal)
}
