// A layer as a stream, from where an earlier attempt ended. Nothing is checked here: whoever writes it down does that.
import { Readable } from 'node:stream'
import { FleetError, type Digest } from '@muster/protocol'
import type { OutboundResponse } from '../outbound/outbound.ts'
import { parseContentRange, parseUnsatisfiedRange } from './content-range.ts'
import type { OciReference } from './reference.ts'
import type { RegistryCall } from './registry-call.ts'

/** `offset` is where the stream really begins; `size` is that of the whole blob, as far as the registry says. */
export type OpenedBlob = Readonly<{ stream: Readable; offset: number; size: number | null }>

type Asked = Readonly<{ reference: OciReference; digest: Digest; offset: number; signal: AbortSignal }>

export async function openBlob(call: RegistryCall, asked: Asked): Promise<OpenedBlob> {
  return await call.patiently(async () => {
    // Another part than the one that was asked for is of no use; then it is fetched from its beginning.
    const opened = (await tryOpen(call, asked)) ?? (await tryOpen(call, { ...asked, offset: 0 }))
    if (opened !== null) return opened
    throw new FleetError({ code: 'unavailable', retry: 'backoff', message: `blob ${asked.digest} comes in parts that nobody asked for` })
  }, asked.signal)
}

async function tryOpen(call: RegistryCall, { reference, digest, offset, signal }: Asked): Promise<OpenedBlob | null> {
  const headers = offset === 0 ? {} : { range: `bytes=${offset}-` }
  const what = `blob ${digest} of ${reference.registry}/${reference.repository}`
  const fine = offset === 0 ? [200] : [200, 206, 416]
  return begin(await call.send({ reference, path: `blobs/${digest}`, headers, signal }, { what, fine }), offset)
}

function begin({ status, headers, body }: OutboundResponse, offset: number): OpenedBlob | null {
  if (status === 200) return { stream: body, offset: 0, size: sizeOf(headers['content-length']) }
  const range = status === 206 ? parseContentRange(headers['content-range']) : null
  if (range?.from === offset) return { stream: body, offset, size: range.size }
  body.destroy()
  // Nothing is left to send of a blob that is there to its last byte.
  const isWhole = status === 416 && parseUnsatisfiedRange(headers['content-range']) === offset
  return isWhole ? { stream: Readable.from([]), offset, size: offset } : null
}

const sizeOf = (header: string | undefined): number | null => (header !== undefined && /^\d{1,15}$/.test(header) ? Number(header) : null)
