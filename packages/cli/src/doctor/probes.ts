// Requests of the doctor, over HTTP or a bare socket. Every outcome is a finding: nothing here throws.
import { createConnection, type NetConnectOpts } from 'node:net'
import { errorCode, parseJson } from '@muster/host'
import { routeUrl, systemRoutes } from '@muster/protocol'
import { openRequest, readText } from '../client/api-client.ts'
import { explainUnreachable } from '../client/explain-failure.ts'
import type { Target } from '../client/target.ts'

export type HttpFinding =
  | { readonly answered: true; readonly status: number; readonly json: unknown; readonly date: string | null }
  | { readonly answered: false; readonly reason: string; readonly refused: boolean }

export async function probeHttp(target: Target, path: string, signal: AbortSignal): Promise<HttpFinding> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(4000)])
  const headers = { accept: 'application/json', ...(target.key === null ? {} : { authorization: `Bearer ${target.key.reveal()}` }) }
  try {
    const response = await openRequest({ method: 'GET', url: routeUrl(target.url, { path }, {}), headers, signal: limit })
    const text = await readText(response)
    return { answered: true, status: response.statusCode ?? 0, json: parseJson(text), date: response.headers.date ?? null }
  } catch (error) {
    const refused = errorCode(error) === 'ECONNREFUSED'
    return { answered: false, reason: explainUnreachable(limit.aborted ? limit.reason : error, target, 4000).message, refused }
  }
}

/** Null when there is no answer, or none of Muster. */
export async function probeVersion(url: URL, signal: AbortSignal): Promise<string | null> {
  const finding = await probeHttp(
    { url, urlFrom: '--port', key: null, keyFrom: '', isKeyWithheld: false },
    systemRoutes.version.path,
    signal,
  )
  return finding.answered && finding.status === 200 ? versionIn(finding.json) : null
}

export function versionIn(json: unknown): string | null {
  const parsed = systemRoutes.version.response?.safeParse(json)
  return parsed?.success === true ? parsed.data.version : null
}

export type SocketFinding = { readonly answered: true; readonly data: Buffer } | { readonly answered: false; readonly reason: string }

interface SocketProbe {
  readonly to: NetConnectOpts
  readonly send: Buffer | null
  /** True when the data suffices. */
  readonly isWhole: (data: Buffer) => boolean
  readonly signal: AbortSignal
}

export function probeSocket({ to, send, isWhole, signal }: SocketProbe): Promise<SocketFinding> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(4000)])
  return new Promise((resolve) => {
    const socket = createConnection(to)
    let data = Buffer.alloc(0)
    let connected = false
    const end = (finding: SocketFinding): void => {
      socket.destroy()
      resolve(finding)
    }
    limit.addEventListener(
      'abort',
      () => end({ answered: false, reason: connected ? 'no answer within 4 s' : 'no connection within 4 s' }),
      { once: true },
    )
    socket.on('connect', () => {
      connected = true
      if (send !== null) socket.write(send)
    })
    socket.on('data', (chunk) => {
      data = Buffer.concat([data, chunk])
      if (isWhole(data) || data.length > 65_536) end({ answered: true, data })
    })
    socket.on('error', (error: NodeJS.ErrnoException) => end({ answered: false, reason: error.code ?? error.message }))
    socket.on('close', () => end({ answered: false, reason: 'the connection was closed' }))
  })
}
