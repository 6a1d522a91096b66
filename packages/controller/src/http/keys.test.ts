import { systemClock } from '@muster/host'
import { keyRoutes } from '@muster/protocol'
import { expect, it } from 'vitest'
import { createPrincipalFinder } from '../auth/principal.ts'
import { newSessionSecret } from '../auth/secrets.ts'
import type { AccessStore } from '../store/access.ts'
import type { Call } from './endpoint.ts'
import { keyEndpoints } from './keys.ts'

it('SEC10 the controller that revokes a key refuses it and its sessions at once, and no other key', async () => {
  const access = {
    findKey: async (hash: string) => ({ id: hash.slice(0, 8), name: 'k', scope: 'admin' }),
    findSession: async () => ({ leftMs: 1e9 }),
    removeKey: async () => true,
  } as unknown as AccessStore
  const principals = createPrincipalFinder({ access, clock: systemClock })
  const revoked = await principals.byKey('revoked')
  if (revoked?.kind !== 'key') throw new Error('the key is not valid')
  const [ofRevoked, ofOther] = [newSessionSecret(revoked.id), newSessionSecret(null)]
  await Promise.all([principals.byKey('other'), principals.byCookie(ofRevoked), principals.byCookie(ofOther)])
  const remove = keyEndpoints({ access, principals }).find(({ route }) => route === keyRoutes.remove)
  await remove?.handle({ params: { id: revoked.id } } as unknown as Call<never>)
  expect(await principals.byKey('revoked')).toBeNull()
  expect(await principals.byCookie(ofRevoked)).toBeNull()
  expect(await principals.byKey('other')).not.toBeNull()
  expect(await principals.byCookie(ofOther)).not.toBeNull()
})
