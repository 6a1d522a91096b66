import { silentLog, systemClock, type Clock } from '@muster/host'
import { expect, it } from 'vitest'
import { createPrincipalFinder } from './auth/principal.ts'
import { createHousekeeping } from './housekeeping.ts'
import type { AccessStore } from './store/access.ts'
import type { Store } from './store/store.ts'

it('the last use of keys is written again after a failed write', async () => {
  const stop = new AbortController()
  const touched: (readonly string[])[] = []
  const access = {
    findKey: async () => ({ id: 'k1', name: 'k', scope: 'read' }),
    touchKeys: async (ids: readonly string[]) => {
      touched.push(ids)
      if (touched.length === 1) throw new Error('the database is away')
      stop.abort()
    },
    removeExpired: async () => undefined,
  } as unknown as AccessStore
  const store = {
    access,
    controllers: { heartbeat: async () => undefined, remove: async () => undefined },
    changes: { forgetDeleted: async () => undefined },
  } as unknown as Store
  const clock: Clock = { ...systemClock, sleep: async () => undefined }
  const principals = createPrincipalFinder({ access, clock })
  await principals.byKey('secret')
  await createHousekeeping({
    store,
    principals,
    historyMs: 1_000,
    own: { id: 'c', version: '', pinned: {}, url: '' },
    clock,
    log: silentLog,
  }).run(stop.signal)
  expect(touched).toEqual([['k1'], ['k1']])
})
