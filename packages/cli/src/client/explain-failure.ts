// Pure: the error message of a failed request.
import { errorCode, parseJson } from '@muster/host'
import { ApiError } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { plainText } from '../output/text.ts'
import type { Target } from './target.ts'

/** The request never got an answer. */
export function explainUnreachable(error: unknown, target: Target, timeoutMs: number): CliError {
  const at = `${target.url.origin} (${target.urlFrom})`
  const code = codeOf(error)
  const explain = (message: string, hint: string): CliError => new CliError(message, { hint, cause: error })
  if (error instanceof Error && (error.name === 'TimeoutError' || error.name === 'AbortError'))
    return explain(`the controller at ${at} did not answer within ${timeoutMs / 1000} s`, 'check its log, or run `muster doctor`')
  if (code === 'ECONNREFUSED')
    return explain(
      `nothing listens at ${at}`,
      'start a controller there with `muster up` or `muster controller`, or name another one with --url or MUSTER_URL',
    )
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return explain(`the host name of ${at} is unknown`, 'check the name, or give another one with --url or MUSTER_URL')
  const reason = error instanceof Error && error.message !== '' ? error.message : String(code ?? error)
  return explain(`cannot reach the controller at ${at}: ${plainText(reason)}`, 'check the address and the network, or run `muster doctor`')
}

export interface Refusal {
  readonly status: number
  readonly contentType: string
  readonly location: string | null
  readonly retryAfter?: string | null
  readonly text: string
}

/** The request was answered, and not with success. */
export function explainRefusal(refusal: Refusal, target: Target): CliError {
  if (refusal.status >= 300 && refusal.status < 400)
    return new CliError(
      `${target.url.origin} redirects to ${plainText(refusal.location ?? 'elsewhere')}, and keys are not sent after redirects`,
      {
        status: refusal.status,
        hint: 'give the final address with --url or MUSTER_URL',
      },
    )
  const answer = parseJson(refusal.text)
  const reported = errorIn(answer)
  if (reported === null)
    return new CliError(
      `the server at ${target.url.origin} (${target.urlFrom}) is not a Muster controller: HTTP ${refusal.status}, ${plainText(refusal.contentType) || 'no content type'}`,
      {
        status: refusal.status,
        hint: 'check the address, or the proxy in front of it',
      },
    )
  return new CliError(plainText(reported.message), {
    code: plainText(reported.code),
    status: refusal.status,
    refusal: { answer, retryAfterMs: secondsIn(refusal.retryAfter) },
    hint: keyHint(refusal.status, reported.code, target),
  })
}

/** Muster's error object, or OpenAI's, whose code may be null beside a type. */
function errorIn(answer: unknown): { code: string; message: string } | null {
  const own = ApiError.safeParse(answer)
  if (own.success) return own.data.error
  const error = isRecord(answer) ? answer['error'] : undefined
  if (!isRecord(error) || typeof error['message'] !== 'string') return null
  const code = [error['code'], error['type']].find((one) => typeof one === 'string' && one !== '')
  return { code: typeof code === 'string' ? code : 'error', message: error['message'] }
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === 'object' && value !== null

/** Only seconds; dates are ignored. */
const secondsIn = (text: string | null | undefined): number | null => (/^\d{1,6}$/.test(text ?? '') ? Number(text) * 1000 : null)

/** A 403 with another code is about the request (a source that is not allowed), not about the key. */
function keyHint(status: number, code: string, target: Target): string | null {
  if (status === 401 && target.key === null)
    return `no key was sent: set MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE (there is no ${target.keyFrom})`
  if (status === 401 || (status === 403 && code === 'forbidden'))
    return `the key came from ${target.keyFrom}: set MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE to use another one`
  return null
}

/** A host with several addresses fails with one error per address. */
const codeOf = (error: unknown): string | number | undefined => errorCode(error instanceof AggregateError ? error.errors[0] : error)
