import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { silentLog } from '@muster/host'
import { describe, expect, it } from 'vitest'
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

describe('drain', () => {
  /** Answers end when the test says so; `/now` is answered at once. */
  async function startDraining() {
    const address = await claimAddress({ host: '127.0.0.1', port: 0 })
    const answered = Promise.withResolvers<void>()
    const answer = async (request: Request): Promise<Response> => {
      if (!request.url.endsWith('/now')) await answered.promise
      return new Response('served')
    }
    address.serve({ fetch: answer, raw: () => false }, silentLog)
    const agent = new Agent({ keepAlive: true })
    const ask = async (path: string) => {
      const [response] = (await once(get({ port: address.port, host: '127.0.0.1', path, agent }), 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'end')
      return { status: response.statusCode, connection: response.headers.connection }
    }
    const never = new AbortController().signal
    return { address, ask, never, answer: answered.resolve, agent, connect: () => connect(address.port, '127.0.0.1') }
  }

  it('closes the connection after every answer from the announcement on, also after those in progress', async () => {
    const { address, ask, answer, agent } = await startDraining()
    expect(await ask('/now')).toEqual({ status: 200, connection: 'keep-alive' })
    const slow = ask('/slow')
    while (address.requestCount() === 0) await nextTurn()
    address.announceClose()
    expect(await ask('/now')).toEqual({ status: 200, connection: 'close' })
    answer()
    expect(await slow).toEqual({ status: 200, connection: 'close' })
    await address.release()
    agent.destroy()
  })

  it('refuses new connections, and waits for requests in progress', async () => {
    const { address, ask, never, answer, connect: open } = await startDraining()
    const slow = ask('/slow')
    while (address.requestCount() === 0) await nextTurn()
    let isDrained = false
    const drained = address.drain(never).then(() => (isDrained = true))
    const [refused] = (await once(open(), 'error').catch((error: unknown) => [error])) as [NodeJS.ErrnoException]
    expect(refused.code).toBe('ECONNREFUSED')
    expect(isDrained).toBe(false)
    answer()
    expect((await slow).status).toBe(200)
    await drained
    await address.release()
  })

  it('does not wait for connections without a request, and closes them at the release', async () => {
    const { address, ask, never, connect: open } = await startDraining()
    await ask('/now')
    const silent = open()
    await once(silent, 'connect')
    const closed = once(silent, 'close')
    const begun = performance.now()
    await address.drain(never)
    await address.release()
    await closed
    expect(performance.now() - begun).toBeLessThan(2_000)
  })

  it('ends at the signal', async () => {
    const { address, ask, answer } = await startDraining()
    const slow = ask('/slow')
    while (address.requestCount() === 0) await nextTurn()
    await address.drain(AbortSignal.timeout(10))
    expect(address.requestCount()).toBe(1)
    answer()
    await slow
    await address.release()
  })
})
