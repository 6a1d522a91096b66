// What a request's Host, Origin and Sec-Fetch-Site say about where it comes from. Pure.
// On a loopback address everything local may call without a key, so a web page elsewhere must not be
// able to: neither by a form or script of another origin, nor by a name that it points at 127.0.0.1.
import { isIP } from 'node:net'

const loopbackName = /^(?:localhost|(?:[a-z0-9-]+\.)+localhost)$/i

export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  return loopbackName.test(bare) || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

/** The host of a Host header, without its port; null when it is not one. */
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

/** Same origin by the browser's own word; absent means that no browser says otherwise. */
function isOriginOwn(request: Provenance): boolean {
  if (request.origin === undefined) return false
  return URL.canParse(request.origin) && new URL(request.origin).host.toLowerCase() === request.host.toLowerCase()
}

/** May a call without a key count as local? A page of another origin always shows itself by its Origin. */
export function isFromElsewhere(request: Provenance): boolean {
  if (request.origin !== undefined && !isOriginOwn(request)) return true
  return request.fetchSite !== undefined && request.fetchSite !== 'same-origin' && request.fetchSite !== 'none'
}

/** A cookie is sent by the browser unasked, so it counts only for what our own pages do. */
export function doesCookieCount(request: Provenance): boolean {
  if (request.method === 'GET' || request.method === 'HEAD') return !isFromElsewhere(request)
  return isOriginOwn(request)
}
