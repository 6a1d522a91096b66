import { systemClock } from '@muster/host'
import { loginRoutes } from '@muster/protocol'
import { expect, it } from 'vitest'
import { createFailureLimit } from '../auth/failure-limit.ts'
import type { PrincipalFinder } from '../auth/principal.ts'
import type { AccessStore } from '../store/access.ts'
import type { Call } from './endpoint.ts'
import { loginEndpoints } from './login.ts'

it('a login before the database is ready has to wait, and does not use up its link', async () => {
  const used: unknown[] = []
  const access = { useLoginLink: async (link: unknown) => used.push(link) } as unknown as AccessStore
  const principals = {} as unknown as PrincipalFinder
  const login = loginEndpoints({
    access,
    principals,
    url: 'http://c',
    failures: createFailureLimit(systemClock),
    isStarted: () => false,
  }).find((endpoint) => endpoint.route === loginRoutes.login)
  const call = { query: { token: 'x' } } as unknown as Call<never>
  await expect(login?.handle(call)).rejects.toMatchObject({ status: 503, code: 'starting', headers: { 'retry-after': '1' } })
  expect(used).toEqual([])
})
