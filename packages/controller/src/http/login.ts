// Browser login and logout: /login, /api/login, /api/logout and login links. auth/login.ts decides.
import { loginRoutes as routes, unreachable } from '@muster/protocol'
import { createLoginLink, loginByKey, loginByLink, logout, sessionMs, type KeyLogin, type KeyLoginDeps } from '../auth/login.ts'
import { Answer, clearSessionCookie, endpoint, type Endpoint, sessionCookieOf, setSessionCookie } from './endpoint.ts'
import { HttpError, starting } from './http-error.ts'

export interface LoginDeps extends KeyLoginDeps {
  readonly url: string
  /** These are the only open routes that need the database. */
  readonly isStarted: () => boolean
}

export function loginEndpoints(deps: LoginDeps): Endpoint[] {
  return [
    endpoint(routes.createLink, async () => await createLoginLink(deps)),
    endpoint(routes.login, async ({ query, isHead }) => {
      if (isHead) return new Response(null, { status: 204 }) // A link preview must not use the link up.
      if (!deps.isStarted()) throw starting()
      const session = await loginByLink(deps.access, query.token)
      if (session === null) throw linkUsed()
      return new Response(null, {
        status: 303,
        headers: { location: '/', 'set-cookie': cookieOf(deps, session), 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' },
      })
    }),
    endpoint(routes.loginByKey, async ({ body, remoteAddress }) => {
      if (!deps.isStarted()) throw starting()
      const login = await loginByKey({ key: body.key, address: remoteAddress }, deps)
      if (login.outcome !== 'ok') throw refusalOf(login)
      return new Answer(204, undefined, { 'set-cookie': cookieOf(deps, login.session) })
    }),
    endpoint(routes.logout, async ({ headers }) => {
      const secret = sessionCookieOf(headers.get('cookie') ?? undefined)
      if (secret !== null) await logout(secret, deps)
      return new Answer(204, undefined, { 'set-cookie': clearSessionCookie })
    }),
  ]
}

const cookieOf = ({ url }: LoginDeps, session: string): string =>
  setSessionCookie(session, { maxAgeSeconds: sessionMs / 1000, isSecure: url.startsWith('https:') })

const linkUsed = (): HttpError =>
  new HttpError(401, 'login_link_used', 'this login link was used already or has expired; run "muster login-link" for a new one')

function refusalOf(login: Exclude<KeyLogin, { outcome: 'ok' }>): HttpError {
  switch (login.outcome) {
    case 'too_many_failures': {
      const wait = login.waitSeconds
      return new HttpError(429, 'too_many_failures', `too many wrong keys from this address; try again in ${wait} s`, {
        headers: { 'retry-after': String(wait) },
      })
    }
    case 'not_admin':
      return new HttpError(
        403,
        'forbidden',
        `the key ${JSON.stringify(login.name)} has the scope ${login.scope}, and the web page needs one of the scope admin`,
      )
    case 'invalid_key':
      return new HttpError(
        401,
        'invalid_key',
        'unknown or revoked key; the first admin key is in <data-dir>/admin.key on the controller’s machine',
      )
    default:
      return unreachable(login)
  }
}
