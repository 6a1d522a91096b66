import { silentLog } from '@muster/host'
import { expect, it } from 'vitest'
import { claimAddress } from './server.ts'

it('answers /healthz and 503 for everything else until it serves', async () => {
  const address = await claimAddress({ host: '127.0.0.1', port: 0 })
  const ask = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${address.port}${path}`, { signal: AbortSignal.timeout(2_000) })
  try {
    const alive = await ask('/healthz')
    expect([alive.status, await alive.json()]).toEqual([200, { status: 'ok' }])
    for (const path of ['/readyz', '/api/nodes', '/']) {
      const answer = await ask(path)
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
      expect(await answer.json()).toMatchObject({ error: { code: 'starting' } })
    }
    address.serve({ fetch: () => new Response('served'), raw: () => false }, silentLog)
    expect(await (await ask('/api/nodes')).text()).toBe('served')
  } finally {
    await address.release()
  }
})
