// The controller the doctor looks at. That there is none is a finding, not an error.
import { resolveTarget, type Target, type TargetOptions } from '../client/target.ts'
import { CliError } from '../cli-error.ts'

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
