// Answers a registry's challenge with the value of an Authorization header, or with null when there is none to give.
import { parseJson, type Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { z } from 'zod'
import { parseIpAddress } from '../outbound/classify-address.ts'
import type { Outbound } from '../outbound/outbound.ts'
import { failureOfStatus } from '../outbound/status-failure.ts'
import type { UrlCredentials } from '../credentials/url-credentials.ts'
import { type Credential, type CredentialSource, howToLogIn } from './credentials.ts'

export interface TokenRequest {
  /** The registry of the reference, to which the credentials belong. */
  readonly registry: string
  /** The origin of the challenge. */
  readonly url: URL
  readonly repository: string
  /** Never the scope of the challenge: a registry does not decide which rights are requested. */
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

interface AuthenticatorDeps {
  readonly outbound: Outbound
  readonly credentials: CredentialSource
  /** For registries that `credentials` does not have. */
  readonly byUrl: UrlCredentials
  readonly clock: Clock
}

export function createAuthenticator({ outbound, credentials, byUrl, clock }: AuthenticatorDeps) {
  const findCredential = async ({ registry, url, repository }: TokenRequest): Promise<Credential | null> => {
    const ofRegistry = await credentials(registry)
    if (ofRegistry !== null) return ofRegistry
    const basicLogin = byUrl(new URL(`/v2/${repository}/`, url))?.basic ?? null
    return basicLogin === null ? null : { kind: 'password', ...basicLogin }
  }

  return async (challenges: readonly Challenge[], wanted: TokenRequest): Promise<Authorization | null> => {
    const bearer = challenges.find(({ scheme }) => scheme === 'bearer')
    const credential = await findCredential(wanted)
    if (bearer !== undefined) return fetchToken(bearer, credential, wanted)
    if (credential?.kind !== 'password' || !challenges.some(({ scheme }) => scheme === 'basic')) return null
    return { header: basic(credential), goodUntil: Number.POSITIVE_INFINITY }
  }

  async function fetchToken(challenge: Challenge, credential: Credential | null, wanted: TokenRequest): Promise<Authorization> {
    const realm = checkRealm(challenge.parameters['realm'], { registry: wanted.url, isListed: outbound.isListed })
    const { service } = challenge.parameters
    const asked = { ...(service === undefined ? {} : { service: service.slice(0, 512) }), scope: wanted.scope }
    const { signal } = wanted
    // A redirect would lead to another token service than the one that was checked.
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
    if (response.status !== 200)
      throw await failureOfStatus(response, { what, server: realm.host, now: clock.now(), howToLogIn: howToLogIn(wanted.registry) })
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
  const answer = TokenAnswer.safeParse(parseJson(text))
  const token = answer.data?.token || answer.data?.access_token
  if (token === undefined || !tokenForm.test(token))
    throw new FleetError({ code: 'unavailable', retry: 'backoff', message: `${what}: the answer holds no token` })
  return { token, seconds: Math.min(Math.max(answer.data?.expires_in ?? usualLifeSeconds, usualLifeSeconds), longestLifeSeconds) }
}

const basic = ({ username, password }: Extract<Credential, { kind: 'password' }>): string =>
  `Basic ${Buffer.from(`${username}:${password.reveal()}`).toString('base64')}`

// Parses WWW-Authenticate, the challenge of a registry. A malformed header is no challenge.
export type Challenge = Readonly<{ scheme: string; parameters: Readonly<Record<string, string>> }>

const longestHeader = 8192
const mostChallenges = 16

/** Schemes and parameter names in lower case; the first of a parameter that is given twice counts. */
export function parseChallenges(header: string | undefined): Challenge[] {
  if (header === undefined || header.length > longestHeader) return []
  const challenges: { scheme: string; parameters: Record<string, string> }[] = []
  // A token with `=` behind it is a parameter, one without begins a challenge.
  const part = /\s*,?\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+)))?/y
  while (part.lastIndex < header.length) {
    const at = part.lastIndex
    const match = part.exec(header)
    if (match === null) return header.slice(at).trim() === '' ? challenges : []
    const [, token = '', quoted, bare] = match
    const value = quoted === undefined ? bare : quoted.replace(/\\(.)/g, '$1')
    const last = challenges.at(-1)
    if (value === undefined) challenges.push({ scheme: token.toLowerCase(), parameters: {} })
    else if (last === undefined) return []
    else if (!Object.hasOwn(last.parameters, token.toLowerCase())) last.parameters[token.toLowerCase()] = value
    if (challenges.length > mostChallenges) return []
  }
  return challenges
}

// A registry names its token service, which receives the credentials: so the service has to belong to the same owner, or be
// listed by an operator.
/** Suffixes below which anyone can register a name: those that registries use. */
const sharedSuffixes: ReadonlySet<string> = new Set([
  'azurecr.io',
  'azurecr.cn',
  'amazonaws.com',
  'pkg.dev',
  'run.app',
  'appspot.com',
  'web.app',
  'github.io',
  'gitlab.io',
  'cloudfront.net',
  'azurewebsites.net',
  'azureedge.net',
  'windows.net',
  'aliyuncs.com',
  'myhuaweicloud.com',
  'digitaloceanspaces.com',
  'herokuapp.com',
  'workers.dev',
  'pages.dev',
  'vercel.app',
  'netlify.app',
  'fly.dev',
  'onrender.com',
  'ngrok.io',
  'ngrok.app',
  'nip.io',
  'sslip.io',
  'duckdns.org',
])
/** `co.uk`, `com.au` and their like: below a country, these have no owner. */
const sharedBelowCountries: ReadonlySet<string> = new Set(['ac', 'co', 'com', 'edu', 'go', 'gov', 'mil', 'ne', 'net', 'or', 'org'])

/** The registered domain; the host if that is unknown. */
export function registrableHost(host: string): string {
  const labels = host.split('.')
  if (parseIpAddress(host.replace(/^\[(.*)\]$/, '$1')) !== null || labels.length <= 2) return host
  const [second = '', top = ''] = labels.slice(-2)
  // There may be a region below a shared suffix (`eu-west-1.amazonaws.com`): only the whole host is surely one owner's.
  if (sharedSuffixes.has(`${second}.${top}`)) return host
  return labels.slice(top.length === 2 && sharedBelowCountries.has(second) ? -3 : -2).join('.')
}

export function checkRealm(realm: string | undefined, { registry, isListed }: { registry: URL; isListed: (url: URL) => boolean }): URL {
  const url = realm === undefined || realm.length > 2048 ? null : URL.parse(realm)
  if (url === null) return refuse(`${registry.host} asks for a token and does not say from where`)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return refuse(`${registry.host} asks for a token from ${url.protocol}//…`)
  if (registry.protocol === 'https:' && url.protocol === 'http:') return refuse(`${registry.host} requires a token over plain http`)
  if (url.username !== '' || url.password !== '') return refuse(`${registry.host} asks for a token from a URL with a password`)
  if (registrableHost(url.hostname) !== registrableHost(registry.hostname) && !isListed(url))
    return refuse(`${registry.host} asks for a token from ${url.host}, which is another host; to allow it: --allow-source ${url.host}`)
  url.hash = ''
  return url
}

function refuse(reason: string): never {
  throw new FleetError({ code: 'invalid', retry: 'never', message: `source_forbidden: ${reason}`.slice(0, 1000) })
}
