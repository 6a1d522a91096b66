// Sends all requests for backends, galleries and model files (docs: --allow-source): resolves the name, checks every address,
// connects to a checked one, and starts over at each redirect.
import { lookup as systemLookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { getCACertificates } from 'node:tls'
import { type Clock, type Log, version, withDeadline } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { noUrlCredentials, type UrlCredentials } from '../credentials/url-credentials.ts'
import { parseAllowList } from './allow-list.ts'
import { checkTarget, hasUrl, type Lookup, type Target } from './check-target.ts'
import { exchange } from './exchange.ts'
import { type Outbound, type OutboundLimits, type OutboundRequest, type OutboundResponse, formatUrl, SourceForbidden } from './outbound.ts'

export interface OutboundOptions {
  /** HOST[:PORT] or CIDR each; throws on others. */
  readonly allow: readonly string[]
  readonly clock: Clock
  readonly log: Log
  /** Default: the system's resolver. */
  readonly lookup?: Lookup
  /** Certificates (PEM) to trust beside those that Node trusts. */
  readonly ca?: readonly string[]
  /** Sent to the origin of the request only; default: none. */
  readonly byUrl?: UrlCredentials
}

const defaultLimits: OutboundLimits = { headersMs: 30_000, stallMs: 30_000 }
/** A registry redirects to its store, a short address to a long one; more redirects are a loop. */
const defaultRedirects = 5

export function createOutbound(options: OutboundOptions): Outbound {
  const allow = parseAllowList(options.allow)
  const lookup = options.lookup ?? resolveName
  const ca = options.ca === undefined ? {} : { ca: [...getCACertificates('default'), ...options.ca] }

  /** Headers of the caller win: they may be a token that the server gave for this request. Plain http needs a listed host. */
  const withCredential = ({ url, headers, isForeign = false }: RedirectTarget): RedirectTarget['headers'] => {
    if (isForeign || (url.protocol !== 'https:' && !hasUrl(allow, url))) return headers
    const credential = (options.byUrl ?? noUrlCredentials)(url)
    if (credential === null || Object.keys(headers).some((name) => name.toLowerCase() === credential.header)) return headers
    return { ...headers, [credential.header]: credential.value.reveal() }
  }

  // The lookup of the system cannot be cancelled, so the caller stops waiting.
  const check = (to: RedirectTarget, signal: AbortSignal, ms: number): Promise<Target> => {
    const rules = { allow, lookup, ...(to.from === undefined ? {} : { redirectedFrom: to.from }) }
    return withDeadline({ clock: options.clock, ms, what: `resolving ${to.url.hostname}`, signal }, () => checkTarget(to.url, rules))
  }

  const follow = async (request: OutboundRequest): Promise<OutboundResponse> => {
    const { method = 'GET', body, signal, maxRedirects = defaultRedirects } = request
    const limits = { ...defaultLimits, ...request.limits }
    const named = request.what === undefined ? {} : { what: request.what }
    let to: RedirectTarget = { url: request.url, headers: { 'user-agent': `muster/${version}`, ...request.headers } }
    for (let left = maxRedirects; ; left--) {
      signal.throwIfAborted()
      const target = await check(to, signal, limits.headersMs)
      const sent = { target, method, headers: withCredential(to), signal, limits, clock: options.clock, ...named, ...ca }
      const response = await exchange(body === undefined ? sent : { ...sent, body })
      const next = followRedirect({ ...to, method }, response)
      if (next === null) return response
      response.body.destroy()
      if (left <= 0) throw new SourceForbidden(`${formatUrl(request.url)} leads to more than ${maxRedirects} redirects`)
      options.log.debug('redirect followed', { from: formatUrl(to.url), to: formatUrl(next.url) })
      to = next
    }
  }

  return {
    async request(request) {
      try {
        return await follow(request)
      } catch (error) {
        if (error instanceof SourceForbidden) options.log.warn('source refused', { url: formatUrl(request.url), reason: error.message })
        throw error
      }
    },
    isListed: (url) => hasUrl(allow, url),
  }
}

async function resolveName(name: string): Promise<string[]> {
  try {
    const found = await systemLookup(name, { all: true })
    return found.map(({ address }) => address).filter((address) => isIP(address) !== 0)
  } catch (error) {
    throw new FleetError({ code: 'unavailable', retry: 'backoff', message: `cannot resolve ${name}` }, { cause: error })
  }
}

// The target of a redirect, and the headers that go along.
export type RedirectTarget = Readonly<{
  url: URL
  headers: Readonly<Record<string, string>>
  /** The URL that redirects here. */ from?: URL
  /** A redirect led to another origin than that of the request, now or before. */
  isForeign?: boolean
}>

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const longestLocation = 8192

/** The headers for another origin. All others (credentials above all) are only for the first one. */
const forAnybody: ReadonlySet<string> = new Set(['accept', 'accept-encoding', 'range', 'if-range', 'user-agent'])

/** Null when the answer is no redirect. Only requests that are safe to repeat are redirected. */
export function followRedirect(
  sent: RedirectTarget & Readonly<{ method: NonNullable<OutboundRequest['method']> }>,
  response: Pick<OutboundResponse, 'status' | 'headers'>,
): RedirectTarget | null {
  const location = response.headers['location']
  if (!redirects.has(response.status) || location === undefined || (sent.method !== 'GET' && sent.method !== 'HEAD')) return null
  const url = location.length > longestLocation ? null : URL.parse(location, sent.url.href)
  if (url === null) throw new SourceForbidden(`${formatUrl(sent.url)} redirects to an invalid URL`)
  if (sent.url.protocol === 'https:' && url.protocol === 'http:')
    throw new SourceForbidden(`${formatUrl(sent.url)} redirects from https to plain http`)
  url.hash = ''
  const isSameOrigin = url.origin === sent.url.origin
  // Dropped headers stay dropped, also when a later redirect leads back.
  const kept = Object.entries(sent.headers).filter(([name]) => isSameOrigin || forAnybody.has(name.toLowerCase()))
  return { url, headers: Object.fromEntries(kept), from: sent.url, isForeign: sent.isForeign === true || !isSameOrigin }
}
