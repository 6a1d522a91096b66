// A link that lets a browser in, once.
import { newSecret, sha256Hex } from '@muster/host'
import type { AccessStore } from '../store/access.ts'

const validMs = 15 * 60_000

export async function createLoginLink(deps: { access: AccessStore; url: string }): Promise<{ url: string; expires_at: string }> {
  const secret = newSecret('login')
  const expires = await deps.access.insertLoginLink(sha256Hex(secret), validMs)
  return { url: `${deps.url}/login?token=${secret}`, expires_at: expires }
}
