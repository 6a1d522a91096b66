// Origin checks by the headers Host, Origin and Sec-Fetch-Site. On a loopback address local programs may call without a
// key, so a web page of another site must not be able to: neither by a form or script of another origin, nor by a DNS name
// that resolves to 127.0.0.1.
import { isIP } from 'node:net'

const loopbackName = /^(?:localhost|(?:[a-z0-9-]+\.)+localhost)$/i

export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  return loopbackName.test(bare) || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

/** The host of a Host header, without its port; null when the header is malformed. */
function hostOf(header: string | undefined): string | null {
  const match = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?$/.exec(header ?? '')
  return match?.[1] ?? null
}

export function isHostAllowed(header: string | undefined, listener: { isLoopback: boolean; publicHost: string | null }): boolean {
  const host = hostOf(header)
  if (host === null) return false
  return !listener.isLoopback || isLoopbackHost(host) || host.toLowerCase() === listener.publicHost?.toLowerCase()
}

export type Provenance = Readonly<{ method: string; host: string; origin: string | undefined; fetchSite: string | undefined }>

/** Same origin according to the browser. */
function isOriginOwn(request: Provenance): boolean {
  if (request.origin === undefined) return false
  return URL.canParse(request.origin) && new URL(request.origin).host.toLowerCase() === request.host.toLowerCase()
}

/** True for a request of a web page of another origin, which must not count as local. */
export function isFromElsewhere(request: Provenance): boolean {
  if (request.origin !== undefined && !isOriginOwn(request)) return true
  return request.fetchSite !== undefined && request.fetchSite !== 'same-origin' && request.fetchSite !== 'none'
}

/** Browsers attach cookies to every request, so a cookie counts only for requests of Muster's own pages. */
export function doesCookieCount(request: Provenance): boolean {
  if (request.method === 'GET' || request.method === 'HEAD') return !isFromElsewhere(request)
  return isOriginOwn(request)
}
