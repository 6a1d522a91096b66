// A file from another worker, through its gateway. Whom to ask comes from a controller, with a token for that file there
// and nothing else; so what guards the ways out does not apply, and no answer sends us elsewhere.
import type { Clock } from '@muster/host'
import { FleetError, type Digest, type ModelFile } from '@muster/protocol'
import { openAtOffset, type OpenedStream, type OutboundResponse } from '@muster/source'
import { openStream } from '../http-stream.ts'

type Peer = NonNullable<ModelFile['peers']>[number]

export async function openPeerFile(
  { url: address, authorization }: Peer,
  { digest, offset, clock, signal }: { digest: Digest; offset: number; clock: Clock; signal: AbortSignal },
): Promise<OpenedStream> {
  const url = URL.parse(address)
  if (url === null || !/^https?:$/.test(url.protocol)) throw unavailable(`${JSON.stringify(address)} is no address of a worker`)
  const what = `${digest} at ${url.host}`
  const ask = async (headers: Readonly<Record<string, string>>, fine: readonly number[]): Promise<OutboundResponse> => {
    const response = await open(headers)
    if (fine.includes(response.status)) return response
    response.body.destroy()
    throw unavailable(`${what}: the worker answers ${response.status}`)
  }
  const open = async (headers: Readonly<Record<string, string>>): Promise<OutboundResponse> => {
    try {
      return await openStream({ url, headers: { ...headers, authorization }, onBroken: () => undefined, clock, signal })
    } catch (error) {
      signal.throwIfAborted()
      throw unavailable(`${what}: the worker does not answer (${error instanceof Error ? error.message : String(error)})`, error)
    }
  }
  return await openAtOffset(offset, { ask, what })
}

const unavailable = (message: string, cause?: unknown): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message }, { cause })
