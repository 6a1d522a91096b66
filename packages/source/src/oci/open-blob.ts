// A layer as a stream, from where an earlier attempt ended. Nothing is checked here: whoever writes it down does that.
import type { Digest } from '@muster/protocol'
import { openFrom, type OpenedStream } from '../outbound/open-from.ts'
import type { OciReference } from './reference.ts'
import type { RegistryCall } from './registry-call.ts'

type Asked = Readonly<{ reference: OciReference; digest: Digest; offset: number; signal: AbortSignal }>

export async function openBlob(call: RegistryCall, { reference, digest, offset, signal }: Asked): Promise<OpenedStream> {
  const what = `blob ${digest} of ${reference.registry}/${reference.repository}`
  const ask: Parameters<typeof openFrom>[1]['ask'] = (headers, fine) =>
    call.send({ reference, path: `blobs/${digest}`, headers, signal }, { what, fine })
  return await call.patiently(() => openFrom(offset, { ask, what }), signal)
}
