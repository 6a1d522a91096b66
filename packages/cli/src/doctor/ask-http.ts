// One GET of the doctor: whatever comes back is a finding, so nothing here throws.
import { errorCode } from '@muster/host'
import { systemRoutes, routeUrl } from '@muster/protocol'
import { explainUnreachable, parseJson } from '../client/explain-failure.ts'
import { openRequest, readText } from '../client/http-request.ts'
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

/** Null when what answers is no Muster, or nothing answers. */
export async function probeVersion(url: URL, signal: AbortSignal): Promise<string | null> {
  const finding = await probeHttp({ url, urlFrom: '--port', key: null, keyFrom: '', isKeyWithheld: false }, systemRoutes.version.path, signal)
  return finding.answered && finding.status === 200 ? versionIn(finding.json) : null
}

export function versionIn(json: unknown): string | null {
  const parsed = systemRoutes.version.response?.safeParse(json)
  return parsed?.success === true ? parsed.data.version : null
}
