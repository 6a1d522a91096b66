// What an answer that is no success means.
import { FleetError } from '@muster/protocol'
import { z } from 'zod'
import type { OutboundResponse } from './outbound.ts'
import { Busy } from './patience.ts'
import { retryAfterMs } from './retry-after.ts'

const largestAnswer = 65_536
const Errors = z.object({ errors: z.array(z.object({ code: z.string().default(''), message: z.string().default('') })).min(1) })

type About = Readonly<{ what: string; who: string; now: number }>

/** Reads what is said about it, as far as that is worth reading. */
export async function statusFailure(response: OutboundResponse, { what, who, now }: About): Promise<FleetError> {
  const { status } = response
  const said = await sayingOf(response)
  if (status === 429 || status >= 500)
    return new Busy(
      { code: 'unavailable', retry: 'backoff', message: `${what}: ${who} answers ${status}${said}` },
      retryAfterMs(response.headers['retry-after'], now),
    )
  if (status === 404 || status === 410) return failure('not_found', `${what} does not exist${said}`)
  if (status === 401) return failure('invalid', `${what}: ${who} wants other credentials (401)${said}`)
  if (status === 403) return failure('invalid', `${what}: ${who} forbids access (403)${said}`)
  return failure('invalid', `${what}: ${who} answers ${status}${said}`)
}

const failure = (code: 'invalid' | 'not_found', message: string): FleetError => new FleetError({ code, retry: 'never', message })

async function sayingOf(response: OutboundResponse): Promise<string> {
  try {
    const parsed = Errors.safeParse(JSON.parse(await response.text(largestAnswer)))
    const [error] = parsed.success ? parsed.data.errors : []
    const text = [error?.code, error?.message].filter(Boolean).join(': ')
    // A stranger's words, shown to a person: no control characters, no essay.
    return text === '' ? '' : ` (${text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, 200)})`
  } catch {
    response.body.destroy()
    return ''
  }
}
