// Pure: what is known of a part of the cluster when the controller does not tell of it.
import type { ControllerReport } from './ask-controller.ts'
import { fail, type Verdict, warn } from './verdict.ts'

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
