// Requests to a registry's API: detects https or plain http, answers challenges, and caches both.
import { type Clock, errorCode, type Log } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { type Outbound, type OutboundRequest, type OutboundResponse, SourceForbidden } from '../outbound/outbound.ts'
import { type Authorization, createAuthenticator, parseChallenges } from './authenticate.ts'
import { noUrlCredentials, type UrlCredentials } from '../credentials/url-credentials.ts'
import type { CredentialSource } from './credentials.ts'
import type { OciReference } from './reference.ts'

export interface RegistryRequest extends Pick<OutboundRequest, 'headers' | 'signal' | 'limits' | 'what'> {
  readonly reference: Pick<OciReference, 'registry' | 'repository'>
  readonly method?: NonNullable<OutboundRequest['method']>
  /** Below `/v2/<repository>/`, or the URL of an upload, which gets credentials only on the registry's origin. */
  readonly path: string | URL
  /** Called again for each attempt. */
  readonly body?: () => Uint8Array | AsyncIterable<Uint8Array>
  readonly access?: 'pull' | 'pull,push'
}

/** One attempt, challenges answered. Any status is an answer. */
export type RegistryApi = (request: RegistryRequest) => Promise<OutboundResponse>

type Scheme = 'https' | 'http'

/** The API of docker.io is on another host. */
const apiHosts: Readonly<Record<string, string>> = { 'docker.io': 'registry-1.docker.io' }

export interface RegistryOptions {
  readonly outbound: Outbound
  readonly credentials: CredentialSource
  /** For registries that `credentials` does not have; default: none. */
  readonly byUrl?: UrlCredentials
  readonly clock: Clock
  readonly log: Log
}

export function createRegistryApi({ outbound, credentials, byUrl = noUrlCredentials, clock, log }: RegistryOptions): RegistryApi {
  const authenticate = createAuthenticator({ outbound, credentials, byUrl, clock })
  const schemes = new Map<string, Scheme>()
  const authorizations = new Map<string, Authorization>()

  const sendTo = (base: URL, request: RegistryRequest, header: string | undefined): Promise<OutboundResponse> => {
    const { reference, path, method = 'GET', headers, body, signal, limits, what } = request
    const url = typeof path === 'string' ? new URL(`/v2/${reference.repository}/${path}`, base) : path
    return outbound.request({
      url,
      method,
      signal,
      headers: { ...headers, ...(header === undefined || url.origin !== base.origin ? {} : { authorization: header }) },
      ...(body === undefined ? {} : { body: body() }),
      ...(limits === undefined ? {} : { limits }),
      ...(what === undefined ? {} : { what }),
    })
  }

  const authorised = async (base: URL, request: RegistryRequest): Promise<OutboundResponse> => {
    const { registry, repository } = request.reference
    const scope = `repository:${repository}:${request.access ?? 'pull'}`
    const key = `${base.origin} ${scope}`
    const known = authorizations.get(key)
    if (known !== undefined && known.goodUntil <= clock.monotonic()) authorizations.delete(key)
    const response = await sendTo(base, request, authorizations.get(key)?.header)
    // A store behind a redirect may refuse too; its challenge must not get the credentials.
    if (response.status !== 401 || response.url.origin !== base.origin) return response
    authorizations.delete(key)
    const challenges = parseChallenges(response.headers['www-authenticate'])
    const answer = await authenticate(challenges, { registry, url: base, repository, scope, signal: request.signal }).catch(
      (error: unknown) => {
        response.body.destroy()
        throw error
      },
    )
    if (answer === null) return response
    response.body.destroy()
    const second = await sendTo(base, request, answer.header)
    if (second.status !== 401) authorizations.set(key, answer)
    return second
  }

  const at = (registry: string, scheme: Scheme): URL => new URL(`${scheme}://${apiHosts[registry] ?? registry}/`)

  /** Https; plain http only when the registry has no https, and only for listed sources. */
  return async (request) => {
    const { registry } = request.reference
    const known = schemes.get(registry)
    try {
      const response = await authorised(at(registry, known ?? 'https'), request)
      if (known === undefined) schemes.set(registry, 'https')
      return response
    } catch (error) {
      // The registry may have a certificate by now.
      if (known === 'http' && error instanceof FleetError && error.failure.code === 'unavailable') schemes.delete(registry)
      if (known !== undefined || !isPlainHttpServer(error)) throw error
      const response = await authorised(at(registry, 'http'), request).catch((second: unknown) => {
        throw second instanceof SourceForbidden ? noTls(registry, error) : second
      })
      log.info('registry uses plain http', { registry })
      schemes.set(registry, 'http')
      return response
    }
  }
}

const noTls = (registry: string, cause: unknown): FleetError =>
  new FleetError(
    {
      code: 'invalid',
      retry: 'never',
      message: `source_forbidden: ${registry} does not speak https; to allow plain http: --allow-source ${registry}`,
    },
    { cause },
  )

// True when a failed https request met a server that speaks plain http. A wrong certificate is another failure.
const codes: ReadonlySet<unknown> = new Set(['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])

export function isPlainHttpServer(error: unknown): boolean {
  return error instanceof FleetError && codes.has(errorCode(error.cause))
}
