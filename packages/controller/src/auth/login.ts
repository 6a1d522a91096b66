// Browser login: exchanges a one-time link or an admin key for a session.
import { newSecret, sha256Hex } from '@muster/host'
import type { Scope } from '@muster/protocol'
import type { AccessStore } from '../store/access.ts'
import type { FailureLimit } from './failure-limit.ts'
import type { PrincipalFinder } from './principal.ts'
import { newSessionSecret } from './secrets.ts'

const loginLinkMs = 15 * 60_000
export const sessionMs = 7 * 24 * 3_600_000

/** A link that logs in one browser, once. */
export async function createLoginLink(deps: { access: AccessStore; url: string }): Promise<{ url: string; expires_at: string }> {
  const secret = newSecret('login')
  const expires = await deps.access.insertLoginLink(sha256Hex(secret), loginLinkMs)
  return { url: `${deps.url}/login?token=${secret}`, expires_at: expires }
}

/** Returns the secret of the new session; null when the link was used or has expired. */
export async function loginByLink(access: AccessStore, token: string): Promise<string | null> {
  const session = newSessionSecret(null)
  const isAccepted = await access.useLoginLink({ secretSha256: sha256Hex(token), sessionSha256: sha256Hex(session), sessionMs })
  return isAccepted ? session : null
}

export interface KeyLoginDeps {
  readonly access: AccessStore
  readonly principals: PrincipalFinder
  readonly failures: FailureLimit
}
export type KeyLogin =
  | { readonly outcome: 'ok'; readonly session: string }
  | { readonly outcome: 'too_many_failures'; readonly waitSeconds: number }
  | { readonly outcome: 'not_admin'; readonly name: string; readonly scope: Scope }
  | { readonly outcome: 'invalid_key' }

/** Only admin keys. Wrong keys are counted per address. */
export async function loginByKey(
  { key, address }: { key: string; address: string },
  { access, principals, failures }: KeyLoginDeps,
): Promise<KeyLogin> {
  const waitSeconds = failures.waitSeconds(address)
  if (waitSeconds > 0) return { outcome: 'too_many_failures', waitSeconds }
  const principal = await principals.byKey(key)
  if (principal?.kind === 'key') {
    const { id: keyId, name, scope } = principal
    if (scope !== 'admin') return { outcome: 'not_admin', name, scope }
    const session = newSessionSecret(keyId)
    // False when the key was revoked since it was looked up.
    if (await access.insertSession({ secretSha256: sha256Hex(session), keyId, sessionMs })) return { outcome: 'ok', session }
  }
  failures.recordFailure(address)
  return { outcome: 'invalid_key' }
}

export async function logout(secret: string, { access, principals }: Omit<KeyLoginDeps, 'failures'>): Promise<void> {
  await access.removeSession(sha256Hex(secret))
  principals.forgetCookie(secret)
}
