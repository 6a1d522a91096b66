import { createServer as createHttpServer, type ServerResponse } from 'node:http'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { silentLog, systemClock } from '@muster/host'
import { boundMs, waitFor } from '@muster/testkit'
import { afterEach, expect, it } from 'vitest'
import { countMisses, probePace, probeResultOf, verdictMs } from './gateway-liveness.pure.ts'
import { createGateways } from './gateways.ts'

const endings: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of endings.splice(0).toReversed()) await end()
})

const pace = { everyMs: 20, againMs: 5, withinMs: 100, misses: 3 }

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** A gateway whose engine never answers, behind a line that stops to carry anything. */
async function world() {
  const waiting: ServerResponse[] = []
  let probes = 0
  const gateway = createHttpServer((request, response) => {
    if (request.url !== '/healthz') return void waiting.push(response)
    probes += 1
    response.end('{}')
  })
  const target = await listen(gateway)
  const sockets = new Set<Socket>()
  let isDead = false
  const line = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('data', (chunk: Buffer) => isDead || to.write(chunk))
      from.on('error', () => undefined)
      from.on('close', () => isDead || to.destroy())
    }
  })
  const port = await listen(line)
  const gateways = createGateways({ clock: systemClock, log: silentLog, pace })
  endings.push(async () => {
    await gateways.close()
    for (const socket of sockets) socket.destroy()
    line.close()
    gateway.closeAllConnections()
    gateway.close()
  })
  const origin = `http://127.0.0.1:${port}`
  const request = (path = '/work') => gateways.at(origin).request({ method: 'POST', path, body: '{}' })
  return {
    gateways,
    origin,
    request,
    waiting,
    probes: () => probes,
    vanish: () => void (isDead = true),
    return: () => void (isDead = false),
  }
}

it('requests to a machine that vanished end, on new and on kept connections, until it answers again', async () => {
  const { gateways, origin, request, waiting, vanish, ...rest } = await world()
  // Leaves a connection that is kept.
  const first = request()
  await waitFor(() => waiting.length === 1, { what: 'the first request' })
  waiting[0]?.end('{}')
  await (await first).body.dump()
  const open = request()
  await waitFor(() => waiting.length === 2, { what: 'the second request' })
  vanish()
  const kept = request()
  const failures: string[] = []
  for (const each of [open, kept]) each.catch((error: unknown) => failures.push(String(error)))
  await waitFor(() => failures.length === 2, { what: 'both requests to end', timeoutMs: boundMs(5_000) })
  expect(new Set(failures)).toEqual(new Set(['Error: the machine of the replica does not answer']))
  expect(gateways.isSilent(origin)).toBe(true)
  rest.return()
  await waitFor(() => !gateways.isSilent(origin), { what: 'the gateway to answer again' })
})

it('a request to a gateway that does not listen fails at once', async () => {
  const gateways = createGateways({ clock: systemClock, log: silentLog, pace })
  endings.push(gateways.close)
  await expect(gateways.at('http://127.0.0.1:1').request({ method: 'GET', path: '/' })).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

it('an engine that computes for long without a byte keeps its request while its gateway answers', async () => {
  const { gateways, origin, request, waiting, probes } = await world()
  const slow = request()
  await waitFor(() => probes() > 2 * pace.misses, { what: 'more probes than a vanished machine gets' })
  expect([waiting.length, gateways.isSilent(origin)]).toEqual([1, false])
  waiting[0]?.end('late')
  expect(await (await slow).body.text()).toBe('late')
})

it('requests to a machine that vanished end or go elsewhere within 15 s', () => {
  expect(verdictMs(probePace)).toBeLessThan(14_000)
})

it.each<[string, string | undefined, 'silent' | 'unclear']>([
  ['a timeout of the connection', 'UND_ERR_CONNECT_TIMEOUT', 'silent'],
  ['a timeout of the answer', 'TIMEOUT', 'silent'],
  ['a machine without the gateway', 'ECONNREFUSED', 'silent'],
  ['no route', 'EHOSTUNREACH', 'silent'],
  ['a gateway with too many connections', 'UND_ERR_SOCKET', 'unclear'],
  ['too many open files on this side', 'EMFILE', 'unclear'],
  ['no name resolution', 'EAI_AGAIN', 'unclear'],
  ['an error without a code', undefined, 'unclear'],
])('a probe that meets %s', (_, code, result) => {
  expect(probeResultOf(code)).toBe(result)
})

it.each([
  ['an answer', 2, { result: 'answered', hasReceived: false }, 0],
  ['silence', 2, { result: 'silent', hasReceived: false }, 3],
  ['silence while bytes arrive', 2, { result: 'silent', hasReceived: true }, 0],
  ['an unclear result', 2, { result: 'unclear', hasReceived: false }, 2],
] as const)('%s counts', (_, misses, probe, after) => {
  expect(countMisses(misses, probe)).toBe(after)
})
