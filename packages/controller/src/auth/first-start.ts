// The first admin key and join token of a cluster: given by the operator, or made once and shown once.
import { newId, newSecret, Secret, sha256Hex, type DataDir } from '@muster/host'
import type { AccessStore } from '../store/access.ts'

export interface FirstStart {
  /** Those that were made now; null when they were given, or are there since an earlier start. */
  readonly adminKey: Secret | null
  readonly joinToken: Secret | null
}

export interface FirstStartDeps {
  readonly access: AccessStore
  readonly dataDir: DataDir
  readonly given: { readonly adminKey: Secret | undefined; readonly joinToken: Secret | undefined }
}

/** Call it under the migration lock: of several controllers starting on an empty database, one makes them. */
export async function ensureSecrets(deps: FirstStartDeps): Promise<FirstStart> {
  return { adminKey: await ensureAdminKey(deps), joinToken: await ensureJoinToken(deps) }
}

async function ensureAdminKey({ access, dataDir, given }: FirstStartDeps): Promise<Secret | null> {
  if (given.adminKey !== undefined) {
    await access.insertKey({ id: newId(), name: 'MUSTER_ADMIN_KEY', scope: 'admin', secretSha256: sha256Hex(given.adminKey.reveal()) })
    return null
  }
  if ((await access.countKeys()) > 0) return null
  const secret = newSecret('muster_admin')
  // The file first: a crash in between leaves a file that the next start replaces, never a key that nobody has.
  await dataDir.writeSecret('admin.key', secret)
  await access.insertKey({ id: newId(), name: 'first admin key', scope: 'admin', secretSha256: sha256Hex(secret) })
  return new Secret(secret)
}

async function ensureJoinToken({ access, dataDir, given }: FirstStartDeps): Promise<Secret | null> {
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
