// Secrets of a cluster: its first admin key and join token, and session cookies.
import { type DataDir, newId, newSecret, Secret, sha256Hex } from '@muster/host'
import type { AccessStore } from '../store/access.ts'

export interface GeneratedSecrets {
  /** Generated at this start; null when configured, or generated earlier. */
  readonly adminKey: Secret | null
  readonly joinToken: Secret | null
}

export interface SecretsDeps {
  readonly access: AccessStore
  readonly dataDir: DataDir
  readonly given: { readonly adminKey: Secret | undefined; readonly joinToken: Secret | undefined }
}

/** Called under the migration lock, so that only one of several starting controllers generates the secrets. */
export async function ensureSecrets(deps: SecretsDeps): Promise<GeneratedSecrets> {
  return { adminKey: await ensureAdminKey(deps), joinToken: await ensureJoinToken(deps) }
}

async function ensureAdminKey({ access, dataDir, given }: SecretsDeps): Promise<Secret | null> {
  if (given.adminKey !== undefined) {
    await access.insertKey({ id: newId(), name: 'MUSTER_ADMIN_KEY', scope: 'admin', secretSha256: sha256Hex(given.adminKey.reveal()) })
    return null
  }
  if ((await access.countKeys()) > 0) return null
  const secret = newSecret('muster_admin')
  // The file is written first: a crash in between leaves a file that the next start replaces, never a key that is stored nowhere else.
  await dataDir.writeSecret('admin.key', secret)
  await access.insertKey({ id: newId(), name: 'first admin key', scope: 'admin', secretSha256: sha256Hex(secret) })
  return new Secret(secret)
}

async function ensureJoinToken({ access, dataDir, given }: SecretsDeps): Promise<Secret | null> {
  if (given.joinToken !== undefined) {
    await access.replaceJoinTokens(sha256Hex(given.joinToken.reveal()))
    return null
  }
  if ((await access.countJoinTokens()) > 0) return null
  const secret = newSecret('muster_join')
  await dataDir.writeSecret('join.token', secret)
  await access.replaceJoinTokens(sha256Hex(secret))
  return new Secret(secret)
}

/** A session created with a key names that key and lasts no longer. Sessions are found by the hash of the whole cookie, so the name cannot be forged. */
const keySession = /^keysession_[A-Za-z0-9_-]{43}_([a-z0-9-]{1,64})$/

export const newSessionSecret = (keyId: string | null): string =>
  keyId === null ? newSecret('session') : `${newSecret('keysession')}_${keyId}`

export const keyOfSession = (secret: string): string | null => keySession.exec(secret)?.[1] ?? null
