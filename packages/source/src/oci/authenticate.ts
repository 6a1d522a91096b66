// Answers a registry's challenge with the value of an Authorization header, or with null when there is none to give.
import { type Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { z } from 'zod'
import type { Outbound } from '../outbound/outbound.ts'
import type { Challenge } from './challenge.ts'
import type { Credential, CredentialSource } from './credentials.ts'
import { statusFailure } from '../outbound/status-failure.ts'
import { checkRealm } from './token-realm.ts'

export interface Wanted {
  /** As in the reference: whose credentials. */
  readonly registry: string
  /** Where the challenge came from. */
  readonly url: URL
  /** Never the scope of the challenge: a registry does not decide what we ask for. */
  readonly scope: string
  readonly signal: AbortSignal
}

export type Authorization = Readonly<{ header: string; goodUntil: number }>

const TokenAnswer = z.object({
  token: z.string().optional(),
  access_token: z.string().optional(),
  expires_in: z.number().min(0).optional().catch(undefined),
})
const tokenForm = /^[\x21-\x7e]{1,32768}$/
const largestAnswer = 65_536
const usualLifeSeconds = 60
const longestLifeSeconds = 3600

export function createAuthenticator({ outbound, credentials, clock }: { outbound: Outbound; credentials: CredentialSource; clock: Clock }) {
  return async (challenges: readonly Challenge[], wanted: Wanted): Promise<Authorization | null> => {
    const bearer = challenges.find(({ scheme }) => scheme === 'bearer')
    const credential = await credentials.find(wanted.registry)
    if (bearer !== undefined) return fetchToken(bearer, credential, wanted)
    if (credential?.kind !== 'password' || !challenges.some(({ scheme }) => scheme === 'basic')) return null
    return { header: basic(credential), goodUntil: Number.POSITIVE_INFINITY }
  }

  async function fetchToken(challenge: Challenge, credential: Credential | null, wanted: Wanted): Promise<Authorization> {
    const realm = checkRealm(challenge.parameters['realm'], { registry: wanted.url, isListed: outbound.isListed })
    const { service } = challenge.parameters
    const asked = { ...(service === undefined ? {} : { service: service.slice(0, 512) }), scope: wanted.scope }
    const { signal } = wanted
    // A token service that redirects would be asked for a token elsewhere than it was checked for.
    const common = { signal, maxRedirects: 0 }
    const began = clock.monotonic()
    const response =
      credential?.kind === 'identity'
        ? await outbound.request({ ...common, ...refreshRequest(realm, asked, credential) })
        : await outbound.request({
            ...common,
            url: withQuery(realm, asked),
            headers: credential === null ? {} : { authorization: basic(credential) },
          })
    const what = `a token for ${wanted.registry} from ${realm.host}`
    if (response.status !== 200) throw await statusFailure(response, { what, who: realm.host, now: clock.now() })
    const { token, seconds } = parseToken(await response.text(largestAnswer), what)
    return { header: `Bearer ${token}`, goodUntil: began + seconds * 900 }
  }
}

function refreshRequest(realm: URL, asked: Readonly<Record<string, string>>, { token }: Extract<Credential, { kind: 'identity' }>) {
  const form = new URLSearchParams({ grant_type: 'refresh_token', client_id: 'muster', ...asked, refresh_token: token.reveal() })
  return {
    url: realm,
    method: 'POST' as const,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: Buffer.from(form.toString()),
  }
}

function withQuery(realm: URL, asked: Readonly<Record<string, string>>): URL {
  const url = new URL(realm)
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value)
  return url
}

function parseToken(text: string, what: string): { token: string; seconds: number } {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = null
  }
  const answer = TokenAnswer.safeParse(value)
  const token = answer.data?.token || answer.data?.access_token
  if (token === undefined || !tokenForm.test(token))
    throw new FleetError({ code: 'unavailable', retry: 'backoff', message: `${what}: there is none in the answer` })
  return { token, seconds: Math.min(Math.max(answer.data?.expires_in ?? usualLifeSeconds, usualLifeSeconds), longestLifeSeconds) }
}

const basic = ({ username, password }: Extract<Credential, { kind: 'password' }>): string =>
  `Basic ${Buffer.from(`${username}:${password.reveal()}`).toString('base64')}`
