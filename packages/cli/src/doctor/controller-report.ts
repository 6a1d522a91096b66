// What a controller says of itself, by which its database and its bus are judged.
import { ApiError, type ResponseOf, systemRoutes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { resolveTarget, type Target, type TargetOptions } from '../client/target.ts'
import { fail, type Verdict, warn } from './checks.ts'
import { type HttpFinding, probeHttp } from './probes.ts'

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

// The controller the doctor looks at. That there is none is a finding, not an error.

export type KnownTarget = { readonly target: Target; readonly asked: boolean } | { readonly target: null; readonly reason: string }

export function resolveKnownTarget(options: TargetOptions): KnownTarget {
  try {
    const target = resolveTarget(options)
    return { target, asked: target.urlFrom === '--url' || target.urlFrom === 'MUSTER_URL' }
  } catch (error) {
    if (error instanceof CliError && error.exitCode === 1) return { target: null, reason: error.message }
    throw error
  }
}

// Pure: what is known of a part of the cluster when the controller does not tell of it.

/**
 * `local`: what was found by looking at it from here; null when there is nothing here to look at.
 * The result is null when there is nothing to know, either.
 */
export function judgeUnreported(word: ControllerReport, local: Verdict | null, flag: string): Verdict | null {
  if (local?.level === 'fail') return local
  if (word.kind === 'not_ready')
    return fail(
      `unknown: the controller is not ready${word.reason === null ? '' : ` (${word.reason})`}`,
      `look at the log of the controller; with its ${flag}, this check looks at the server itself`,
    )
  if (local !== null) return local
  if (word.kind !== 'silent') return null
  return warn(`unknown: no controller answers at ${word.url}`, `start it, or give its ${flag} to look at the server itself`)
}
