// The status that a controller reports, by which its database and its bus are judged.
import { ApiError, type ResponseOf, systemRoutes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { resolveTarget, type Target, type TargetOptions } from '../client/target.ts'
import { fail, type Verdict, warn } from './checks.ts'
import { type HttpFinding, probeHttp } from './probes.ts'

export type ControllerReport =
  /** No controller is known. */
  | { readonly kind: 'none' }
  /** No answer, or none of Muster. */
  | { readonly kind: 'silent'; readonly url: string }
  /** `reason`: the controller's own message, if it sent one. */
  | { readonly kind: 'not_ready'; readonly reason: string | null }
  /** Database and bus work; this key may not read more. */
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
  const parsed = systemRoutes.status.response?.safeParse(status.answered ? status.json : undefined)
  if (parsed?.success === true) return { kind: 'status', status: parsed.data }
  if (!ready.answered || (ready.status !== 200 && ready.status !== 503)) return { kind: 'silent', url }
  if (ready.status === 200) return { kind: 'ready' }
  const refusal = status.answered && status.status === 503 ? ApiError.safeParse(status.json).data : undefined
  return { kind: 'not_ready', reason: refusal?.error.message ?? null }
}

/** A missing controller is a finding, not an error. */
export type KnownTarget = { readonly target: Target; readonly isExplicit: boolean } | { readonly target: null; readonly reason: string }

export function resolveKnownTarget(options: TargetOptions): KnownTarget {
  try {
    const target = resolveTarget(options)
    return { target, isExplicit: target.urlFrom === '--url' || target.urlFrom === 'MUSTER_URL' }
  } catch (error) {
    if (error instanceof CliError && error.exitCode === 1) return { target: null, reason: error.message }
    throw error
  }
}

/**
 * Judges a part of the cluster about which the controller reports nothing. `local`: the verdict of a check from this
 * machine; null when there is nothing to check here. Returns null when nothing is known at all.
 */
export function judgeUnreported(report: ControllerReport, local: Verdict | null, flag: string): Verdict | null {
  if (local?.level === 'fail') return local
  if (report.kind === 'not_ready')
    return fail(
      `unknown: the controller is not ready${report.reason === null ? '' : ` (${report.reason})`}`,
      `check the log of the controller; with its ${flag}, this check queries the server directly`,
    )
  if (local !== null) return local
  if (report.kind !== 'silent') return null
  return warn(`unknown: no controller answers at ${report.url}`, `start it, or give its ${flag} to query the server directly`)
}
