// Authorization of every request to a controller, and the browser's session cookie.
import type { Access } from '@muster/protocol'
import { isOpenTo, type Listener, may } from '../auth/may.pure.ts'
import { doesCookieCount, isFromElsewhere, isHostAllowed, type Provenance } from '../auth/origin.ts'
import type { Principal, PrincipalFinder } from '../auth/principal.ts'
import { HttpError } from './http-error.ts'

export interface AuthorizeDeps {
  readonly principals: PrincipalFinder
  readonly listener: Listener & { readonly isLoopback: boolean; readonly publicHost: string | null }
}
/** The parts of a request that authorization reads. */
export interface Caller {
  readonly method: string
  readonly header: (name: string) => string | undefined
}

export function checkHost({ method, header }: Caller, { listener }: AuthorizeDeps): Provenance {
  const host = header('host')
  if (!isHostAllowed(host, listener)) {
    throw new HttpError(
      403,
      'host_not_allowed',
      `this controller listens on a loopback address and does not answer for the host ${JSON.stringify(host ?? '')}; use 127.0.0.1 or localhost, or start it with --public-url`,
    )
  }
  return { method, host: host ?? '', origin: header('origin'), fetchSite: header('sec-fetch-site') }
}

export async function authorize(
  caller: Caller,
  access: Exclude<Access, 'node'>,
  { provenance, deps }: { provenance: Provenance; deps: AuthorizeDeps },
): Promise<Principal> {
  if (access === 'open') {
    // Reads of open routes are harmless; a page of another site must not be able to log a browser in here.
    if (caller.method !== 'GET' && caller.method !== 'HEAD' && isFromElsewhere(provenance)) throw fromElsewhere(provenance)
    return { kind: 'anonymous' }
  }
  const isOpen = isOpenTo(access, deps.listener)
  // An open route needs no principal, so nothing is looked up.
  if (isOpen && !isFromElsewhere(provenance)) return { kind: 'anonymous' }
  const principal = await findPrincipal(caller, provenance, { ...deps, isOpen })
  const verdict = may(principal, access, deps.listener)
  if (verdict === 'unauthenticated') {
    throw new HttpError(
      401,
      'unauthorized',
      'this request needs a key: send "Authorization: Bearer <key>" (the first admin key is in <data-dir>/admin.key)',
      { headers: { 'www-authenticate': 'Bearer' } },
    )
  }
  if (verdict === 'forbidden')
    throw new HttpError(403, 'forbidden', `this key lacks the required scope: ${access === 'metrics' ? 'read' : access}`)
  if (principal.kind === 'anonymous' && isFromElsewhere(provenance)) throw fromElsewhere(provenance)
  return principal
}

const fromElsewhere = ({ origin }: Provenance): HttpError =>
  new HttpError(403, 'origin_not_allowed', `a page of ${origin ?? 'another site'} may not call this controller`)

async function findPrincipal(
  { header }: Caller,
  provenance: Provenance,
  { principals, isOpen }: AuthorizeDeps & { readonly isOpen: boolean },
): Promise<Principal> {
  const authorization = header('authorization')
  if (authorization !== undefined) {
    const key = /^Bearer +(\S+)$/i.exec(authorization)?.[1]
    const principal = key === undefined ? null : await principals.byKey(key)
    if (principal === null && isOpen) return { kind: 'anonymous' }
    if (principal === null)
      throw new HttpError(401, 'unauthorized', 'unknown or revoked key', { headers: { 'www-authenticate': 'Bearer' } })
    return principal
  }
  const cookie = sessionCookieOf(header('cookie'))
  if (cookie !== null && doesCookieCount(provenance)) return (await principals.byCookie(cookie)) ?? { kind: 'anonymous' }
  return { kind: 'anonymous' }
}

const cookieName = 'muster_session'

export function sessionCookieOf(header: string | undefined): string | null {
  for (const part of header?.split(';') ?? []) {
    const [key, value] = part.trim().split('=', 2)
    if (key === cookieName && value !== undefined && /^[A-Za-z0-9_-]{16,256}$/.test(value)) return value
  }
  return null
}

export function setSessionCookie(secret: string, options: { maxAgeSeconds: number; isSecure: boolean }): string {
  return `${cookieName}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${options.maxAgeSeconds}${options.isSecure ? '; Secure' : ''}`
}

export const clearSessionCookie = `${cookieName}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`
