// What a controller says of itself, by which its database and its bus are judged.
import { ApiError, type ResponseOf, systemRoutes } from '@muster/protocol'
import { probeHttp, type HttpFinding } from './ask-http.ts'
import type { KnownTarget } from './known-target.ts'

export type ControllerReport =
  /** No controller is known. */
  | { readonly kind: 'none' }
  /** Nothing answers, or no Muster. */
  | { readonly kind: 'silent'; readonly url: string }
  /** `reason`: its own words, if it had any. */
  | { readonly kind: 'not_ready'; readonly reason: string | null }
  /** Database and bus work; it tells our key no more than that. */
  | { readonly kind: 'ready' }
  | { readonly kind: 'status'; readonly status: ResponseOf<typeof systemRoutes.status> }

export async function queryController(known: KnownTarget, signal: AbortSignal): Promise<ControllerReport> {
  if (known.target === null) return { kind: 'none' }
  const { target } = known
  const [status, ready] = await Promise.all([
    probeHttp(target, systemRoutes.status.path, signal),
    probeHttp({ ...target, key: null }, systemRoutes.readyz.path, signal),
  ])
  return parseReport(target.url.origin, { status, ready })
}

export function parseReport(url: string, { status, ready }: { status: HttpFinding; ready: HttpFinding }): ControllerReport {
  const told = systemRoutes.status.response?.safeParse(status.answered ? status.json : undefined)
  if (told?.success === true) return { kind: 'status', status: told.data }
  if (!ready.answered || (ready.status !== 200 && ready.status !== 503)) return { kind: 'silent', url }
  if (ready.status === 200) return { kind: 'ready' }
  const refusal = status.answered && status.status === 503 ? ApiError.safeParse(status.json).data : undefined
  return { kind: 'not_ready', reason: refusal?.error.message ?? null }
}
