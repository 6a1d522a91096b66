// Connection pools to the gateways of workers. While a pool has requests, its gateway is probed on a connection of its own; the
// connections of a gateway that vanished are closed, so that their requests end or go to another replica.
import type { Socket } from 'node:net'
import { buildConnector, Client, Pool } from 'undici'
import { type Clock, errorCode, type Log } from '@muster/host'
import { countMisses, type ProbePace, probePace, type ProbeResult, probeResultOf } from './gateway-liveness.pure.ts'

/** A worker on a local network accepts in milliseconds; a slower one is given up for another replica. */
const connectTimeoutMs = 2_000
/** Generation may take long; clients give up earlier (OpenAI's after ten minutes). */
const headersTimeoutMs = 30 * 60_000
const bodyTimeoutMs = 15 * 60_000
/** The kernel then asks every second. A machine that was restarted answers with a reset, which no probe shows. */
const keepAliveAfterMs = 5_000
const maxPools = 10_000

export interface GatewayDeps {
  readonly clock: Clock
  readonly log: Log
  readonly pace?: ProbePace
}
export interface Gateways {
  at(origin: string): Pool
  /** The gateway vanished, and has not answered since. */
  isSilent(origin: string): boolean
  close(): Promise<void>
}

export function createGateways({ clock, log, pace = probePace }: GatewayDeps): Gateways {
  const gateways = new Map<string, Gateway>()
  /** Gateways that vanished. */
  const silent = new Set<string>()
  const closing = new AbortController()

  function open(origin: string): Gateway {
    if (gateways.size >= maxPools) forgetIdle(gateways)
    const gateway = createGateway(origin)
    gateways.set(origin, gateway)
    return gateway
  }

  /** Runs while the gateway has requests, or is silent. */
  async function watch(origin: string, gateway: Gateway): Promise<void> {
    let received = gateway.received()
    for (let misses = 0; misses < pace.misses;) {
      await clock.sleep(misses === 0 ? pace.everyMs : pace.againMs, closing.signal)
      if (gateway.pool.stats.size === 0) {
        gateway.isWatched = false
        return
      }
      const result = await probe(origin, pace.withinMs)
      const before = received
      received = gateway.received()
      misses = countMisses(misses, { result, hasReceived: received > before })
    }
    log.warn('gateway does not answer; closing its connections', { origin, requests: gateway.pool.stats.size })
    gateways.delete(origin)
    silent.add(origin)
    void gateway.pool.destroy(new Error('the machine of the replica does not answer'))
    await watchSilent(origin)
  }

  async function watchSilent(origin: string): Promise<void> {
    const until = clock.monotonic() + forgetSilentMs
    while (clock.monotonic() < until && (await probe(origin, pace.withinMs)) !== 'answered') await clock.sleep(pace.everyMs, closing.signal)
    silent.delete(origin)
  }

  return {
    at(origin) {
      const gateway = gateways.get(origin) ?? open(origin)
      if (!gateway.isWatched) {
        gateway.isWatched = true
        watch(origin, gateway).catch((error: unknown) => closing.signal.aborted || log.error('cannot watch a gateway', { origin, error }))
      }
      return gateway.pool
    },
    isSilent: (origin) => silent.size > 0 && silent.has(origin),
    async close() {
      closing.abort()
      await Promise.all([...gateways.values()].map(({ pool }) => pool.destroy()))
      gateways.clear()
    },
  }
}

/** By then no route leads to a node that vanished; one that returned under another address is not probed for ever. */
const forgetSilentMs = 120_000

interface Gateway {
  readonly pool: Pool
  isWatched: boolean
  /** Bytes received over all open connections; grows with each. */
  received(): number
}

function createGateway(origin: string): Gateway {
  const sockets = new Set<Socket>()
  let closed = 0
  const connect = buildConnector({ timeout: connectTimeoutMs, keepAliveInitialDelay: keepAliveAfterMs, allowH2: false })
  const pool = new Pool(origin, {
    connect: (options, callback) =>
      connect(options, (...result) => {
        // A failed connection has no socket.
        const [error, socket] = result
        if (error === null) {
          sockets.add(socket)
          socket.once('close', () => {
            sockets.delete(socket)
            closed += socket.bytesRead
          })
        }
        callback(...result)
      }),
    headersTimeout: headersTimeoutMs,
    bodyTimeout: bodyTimeoutMs,
    allowH2: false,
  })
  return { pool, isWatched: false, received: () => [...sockets].reduce((sum, { bytesRead }) => sum + bytesRead, closed) }
}

/** Any response counts: a proxy in front of the gateway may not know the path. */
async function probe(origin: string, withinMs: number): Promise<ProbeResult> {
  const client = new Client(origin, { allowH2: false })
  try {
    const { body } = await client.request({ path: '/healthz', method: 'GET', signal: AbortSignal.timeout(withinMs) })
    await body.dump()
    return 'answered'
  } catch (error) {
    return probeResultOf(error instanceof Error && error.name === 'TimeoutError' ? 'TIMEOUT' : errorCode(error))
  } finally {
    await client.destroy()
  }
}

/** Removes pools of workers that moved to another address. */
function forgetIdle(gateways: Map<string, Gateway>): void {
  for (const [origin, { pool }] of gateways) {
    if (pool.stats.connected + pool.stats.size > 0) continue
    gateways.delete(origin)
    void pool.destroy()
  }
}
