// Converts an unsuccessful HTTP status to a failure.
import { FleetError } from '@muster/protocol'
import { z } from 'zod'
import type { OutboundResponse } from './outbound.ts'
import { SourceBusyError } from './busy-retry.ts'

const largestAnswer = 65_536
const Errors = z.object({ errors: z.array(z.object({ code: z.string().default(''), message: z.string().default('') })).min(1) })

type FailedRequest = Readonly<{
  what: string
  server: string
  now: number
  /** How to give credentials for this server; absent when it takes none. */
  howToLogIn?: string
}>

/** Includes the server's message, shortened. */
export async function failureOfStatus(response: OutboundResponse, { what, server, now, howToLogIn }: FailedRequest): Promise<FleetError> {
  const { status } = response
  const detail = await readServerError(response)
  if (status === 429 || status >= 500) {
    const waitMs = retryAfterMs(response.headers['retry-after'], now)
    const problem = status === 429 ? 'limits requests (429)' : `answers ${status}`
    const next = waitMs === null ? '' : `; it accepts the next request in ${Math.ceil(waitMs / 1000)} s`
    return new SourceBusyError({ code: 'unavailable', retry: 'backoff', message: `${what}: ${server} ${problem}${detail}${next}` }, waitMs)
  }
  const hint = howToLogIn === undefined ? '' : `; ${howToLogIn}`
  if (status === 404 || status === 410) return failure('not_found', `${what} does not exist${detail}`)
  if (status === 401) return failure('invalid', `${what}: ${server} requires other credentials (401)${detail}${hint}`)
  if (status === 403) return failure('invalid', `${what}: ${server} forbids access (403)${detail}${hint}`)
  return failure('invalid', `${what}: ${server} answers ${status}${detail}`)
}

const failure = (code: 'invalid' | 'not_found', message: string): FleetError => new FleetError({ code, retry: 'never', message })

async function readServerError(response: OutboundResponse): Promise<string> {
  try {
    const parsed = Errors.safeParse(JSON.parse(await response.text(largestAnswer)))
    const [error] = parsed.success ? parsed.data.errors : []
    const text = [error?.code, error?.message].filter(Boolean).join(': ')
    // Foreign text: without control characters, and shortened.
    return text === '' ? '' : ` (${text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, 200)})`
  } catch {
    response.body.destroy()
    return ''
  }
}

// Retry-After, up to a limit: a registry must not be able to stop retries for good.
export const longestRetryAfterMs = 120_000

/** Seconds or a date; null for anything else, and for a date when `now` is NaN. */
export function retryAfterMs(header: string | undefined, now: number): number | null {
  const text = header?.trim() ?? ''
  if (/^\d{1,15}$/.test(text)) return Math.min(Number(text) * 1000, longestRetryAfterMs)
  // Only the form that HTTP prescribes: Date.parse takes nearly anything for a date.
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(text)) return null
  const waitMs = Date.parse(text) - now
  return Number.isNaN(waitMs) ? null : Math.min(Math.max(waitMs, 0), longestRetryAfterMs)
}
