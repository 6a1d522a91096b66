// Browser login: a one-time link or an admin key is exchanged for a session cookie.
import { sha256Hex } from '@muster/host'
import { loginRoutes as routes } from '@muster/protocol'
import type { FailureLimit } from '../auth/failure-limit.ts'
import { createLoginLink, newSessionSecret } from '../auth/secrets.ts'
import type { PrincipalFinder } from '../auth/principal.ts'
import type { AccessStore } from '../store/access.ts'
import { clearSessionCookie, sessionCookieOf, setSessionCookie } from './authorize.ts'
import { Answer, endpoint, type Call, type Endpoint } from './endpoint.ts'
import { HttpError, starting } from './http-error.ts'

const sessionMs = 7 * 24 * 3_600_000

export interface LoginDeps {
  readonly access: AccessStore
  readonly principals: PrincipalFinder
  readonly url: string
  readonly failures: FailureLimit
  /** These are the only open routes that need the database. */
  readonly isStarted: () => boolean
}

export function loginEndpoints(deps: LoginDeps): Endpoint[] {
  return [
    endpoint(routes.createLink, async () => await createLoginLink(deps)),
    endpoint(routes.login, async ({ query, isHead }) => {
      if (isHead) return new Response(null, { status: 204 }) // A link preview must not use the link up.
      if (!deps.isStarted()) throw starting()
      const session = newSessionSecret(null)
      const isAccepted = await deps.access.useLoginLink({
        secretSha256: sha256Hex(query.token),
        sessionSha256: sha256Hex(session),
        sessionMs,
      })
      if (!isAccepted)
        throw new HttpError(
          401,
          'login_link_used',
          'this login link was used already or has expired; run "muster login-link" for a new one',
        )
      return new Response(null, {
        status: 303,
        headers: { location: '/', 'set-cookie': cookieOf(deps, session), 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' },
      })
    }),
    endpoint(routes.loginByKey, async (call) => {
      if (!deps.isStarted()) throw starting()
      return new Answer(204, undefined, { 'set-cookie': cookieOf(deps, await sessionByKey(deps, call)) })
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

const cookieOf = ({ url }: LoginDeps, session: string): string =>
  setSessionCookie(session, { maxAgeSeconds: sessionMs / 1000, isSecure: url.startsWith('https:') })

async function sessionByKey(
  { access, principals, failures }: LoginDeps,
  { body, remoteAddress }: Pick<Call<typeof routes.loginByKey>, 'body' | 'remoteAddress'>,
): Promise<string> {
  const wait = failures.waitSeconds(remoteAddress)
  if (wait > 0) {
    const headers = { 'retry-after': String(wait) }
    throw new HttpError(429, 'too_many_failures', `too many wrong keys from this address; try again in ${wait} s`, { headers })
  }
  const key = await principals.byKey(body.key)
  if (key?.kind === 'key' && key.scope !== 'admin') {
    throw new HttpError(
      403,
      'forbidden',
      `the key ${JSON.stringify(key.name)} has the scope ${key.scope}, and the web page needs one of the scope admin`,
    )
  }
  const session = key?.kind === 'key' ? { keyId: key.id, secret: newSessionSecret(key.id) } : null
  const isAccepted =
    session !== null && (await access.insertSession({ secretSha256: sha256Hex(session.secret), keyId: session.keyId, sessionMs }))
  if (isAccepted) return session.secret
  failures.recordFailure(remoteAddress)
  throw new HttpError(
    401,
    'invalid_key',
    'this key is not known here, or was revoked; the first admin key is in <data-dir>/admin.key on the controller’s machine',
  )
}
