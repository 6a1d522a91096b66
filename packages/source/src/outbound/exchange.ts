// One request to a checked address, and its answer. Each has its own connection: a kept one would save a handshake, but
// would have to be checked again.
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, isIPv6, type LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Clock, errorCode } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { Target } from './check-target.ts'
import { parseIpAddress } from './classify-address.ts'
import { type OutboundLimits, type OutboundRequest, type OutboundResponse, formatUrl, SourceForbidden } from './outbound.ts'
import { abortReason, responseOf, watchBody } from './watch-body.ts'

type Exchange = Pick<OutboundRequest, 'method' | 'body' | 'signal' | 'what'> &
  Readonly<{ target: Target; headers: Readonly<Record<string, string>>; limits: OutboundLimits; clock: Clock; ca?: readonly string[] }>

/** Node tries the addresses one after the other; its default of 250 ms is too short for distant servers. */
const patientConnect = { autoSelectFamily: true, autoSelectFamilyAttemptTimeout: 3000 }

export async function exchange(options: Exchange): Promise<OutboundResponse> {
  const { target, signal, clock, limits } = options
  const { url } = target
  const failed = (reason: string, cause?: unknown): FleetError => {
    const where = options.what === undefined ? formatUrl(url) : `${options.what}: ${url.host}`
    return new FleetError({ code: 'unavailable', retry: 'backoff', message: `${where}: ${reason}` }, { cause })
  }
  const late = new AbortController()
  const answered = new AbortController()
  try {
    const request = open(options, AbortSignal.any([signal, late.signal]))
    const response = new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', resolve).on('error', reject)
    })
    // A failed upload ends the request, with its reason.
    response.catch(() => undefined)
    await sendBody(request, options.body, limits.stallMs)
    const limit = clock.sleep(limits.headersMs, answered.signal).then(
      () => late.abort(),
      () => undefined,
    )
    const message = await response.finally(() => answered.abort())
    await limit
    const body = watchBody(message, { stallMs: limits.stallMs, clock, signal, failed })
    return responseOf(message, body, { url, what: options.what ?? formatUrl(url) })
  } catch (error) {
    if (signal.aborted) throw abortReason(signal)
    if (error instanceof FleetError) throw error
    throw failed(late.signal.aborted ? `no answer within ${limits.headersMs} ms` : describe(error), error)
  } finally {
    answered.abort()
  }
}

function open({ target, method = 'GET', headers, body, ca }: Exchange, signal: AbortSignal): ClientRequest {
  const { url, host, port, addresses } = target
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest
  const request = send({
    method,
    // For the Host header, the certificate's name and the lookup below; a literal address needs no lookup.
    host,
    port,
    path: `${url.pathname}${url.search}`,
    headers: {
      'accept-encoding': 'identity',
      ...headers,
      ...(body instanceof Uint8Array ? { 'content-length': String(body.byteLength) } : {}),
    },
    agent: false,
    lookup: pinned(addresses),
    ...patientConnect,
    signal,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(ca === undefined ? {} : { ca: [...ca] }),
  })
  // Only checked addresses can be connected; this guards against a change in Node.
  request.once('socket', (socket) =>
    socket.once('connect', () => {
      const { remoteAddress } = socket
      // The server has closed the connection already, so there is no address to check and nothing is sent.
      if (remoteAddress === undefined) request.destroy(new Error('the connection was closed at once'))
      else if (!addresses.some((address) => isSame(address, remoteAddress)))
        request.destroy(new SourceForbidden(`${host} was connected at ${remoteAddress}, which was not checked`))
    }),
  )
  return request
}

/** A lookup that returns the checked addresses. */
function pinned(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
  return (_name, { all: wantsAll }, callback) => {
    const [first] = all
    if (first === undefined) callback(new Error('no address'), '', 4)
    else if (wantsAll) callback(null, all)
    else callback(null, first.address, first.family)
  }
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [parseIpAddress(one), parseIpAddress(other)]
  return a !== null && b !== null && a.bits === b.bits && a.value === b.value
}

async function sendBody(request: ClientRequest, body: OutboundRequest['body'], stallMs: number): Promise<void> {
  if (body === undefined || body instanceof Uint8Array) return void request.end(body)
  request.setTimeout(stallMs, () => request.destroy(new Error(`the upload stalled for ${stallMs} ms`)))
  // A server may answer and close before it has read the whole upload: its answer counts. Other failures destroy the
  // request, with their error.
  await pipeline(Readable.from(body), request).catch(() => undefined)
  request.setTimeout(0)
}

function describe(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return describe(error.errors[0])
  return error instanceof Error ? error.message || String(errorCode(error) ?? error.name) : String(error)
}
