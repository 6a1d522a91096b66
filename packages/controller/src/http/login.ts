// How a browser gets in: a link that works once, exchanged for a cookie.
import { newSecret, sha256Hex } from '@muster/host'
import { loginRoutes as routes } from '@muster/protocol'
import { createLoginLink } from '../auth/login-link.ts'
import type { PrincipalFinder } from '../auth/principal.ts'
import type { AccessStore } from '../store/access.ts'
import { clearSessionCookie, sessionCookieOf, setSessionCookie } from './cookie.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, starting } from './http-error.ts'

const sessionMs = 7 * 24 * 3_600_000

export interface LoginDeps {
  readonly access: AccessStore
  readonly principals: PrincipalFinder
  readonly url: string
  /** The only open route that needs the database: it has to ask. */
  readonly isStarted: () => boolean
}

export function loginEndpoints(deps: LoginDeps): Endpoint[] {
  return [
    endpoint(routes.createLink, async () => await createLoginLink(deps)),
    endpoint(routes.login, async ({ query, isHead }) => {
      if (isHead) return new Response(null, { status: 204 }) // a preview of the link must not use it up
      if (!deps.isStarted()) throw starting()
      const session = newSecret('session')
      const isLetIn = await deps.access.useLoginLink({ secretSha256: sha256Hex(query.token), sessionSha256: sha256Hex(session), sessionMs })
      if (!isLetIn)
        throw new HttpError(
          401,
          'login_link_used',
          'this login link was used already or has expired; run "muster login-link" for a new one',
        )
      const cookie = setSessionCookie(session, { maxAgeSeconds: sessionMs / 1000, isSecure: deps.url.startsWith('https:') })
      return new Response(null, {
        status: 303,
        headers: { location: '/', 'set-cookie': cookie, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' },
      })
    }),
    endpoint(routes.logout, async ({ headers }) => {
      const secret = sessionCookieOf(headers.get('cookie') ?? undefined)
      if (secret !== null) {
        await deps.access.removeSession(sha256Hex(secret))
        deps.principals.forgetCookie(secret)
      }
      return new Answer(204, undefined, { 'set-cookie': clearSessionCookie })
    }),
  ]
}
