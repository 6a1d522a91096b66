// A whole document from a registry: bounded, and what its digest says or not used at all.
import { createHash } from 'node:crypto'
import { Digest, FleetError } from '@muster/protocol'
import { largestDocument } from './manifest.ts'
import type { RegistryCall } from './registry-call.ts'
import type { RegistryRequest } from './registry-api.ts'

export type Wanted = Readonly<{ request: RegistryRequest; what: string; digest?: Digest; size?: number }>

export type FetchedDocument = Readonly<{ bytes: Buffer; digest: Digest; contentType: string | undefined }>

export async function fetchDocument(call: RegistryCall, { request, what, digest: wanted, size }: Wanted): Promise<FetchedDocument> {
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
