// Starts the gateway on the configured address, or on one that the controllers can reach, and determines its URL.
import { createSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { type Clock, errorCode, type Log, errorMessage } from '@muster/host'
import { backoffMs, FleetError } from '@muster/protocol'
import type { WorkerSettings } from '../settings.ts'
import { type Gateway, type GatewayDeps, openGateway } from './gateway.ts'
import { httpUrl, isWildcard, parseListenAddress } from './listen-address.ts'

export type StartGatewayDeps = Omit<GatewayDeps, 'host' | 'port'> &
  Readonly<{
    settings: Pick<WorkerSettings, 'gatewayListen' | 'gatewayUrl'>
    controllers: readonly [string, ...string[]]
    /** The port of the last run; null on the first. Used again where the settings leave the choice. */
    lastPort: number | null
    random: () => number
    clock: Clock
    log: Log
    signal: AbortSignal
  }>

export type StartedGateway = Readonly<{ gateway: Gateway; url: string }>

export async function startGateway(deps: StartGatewayDeps): Promise<StartedGateway> {
  const { settings } = deps
  const wanted = parseListenAddress(settings.gatewayListen ?? ':0') ?? { host: null, port: 0 }
  const host = wanted.host ?? (await findRoute(deps))
  const gateway = await openAt(deps, { host, port: wanted.port }).catch((error: unknown) => {
    const reason = errorMessage(error)
    throw new FleetError(
      { code: 'invalid', retry: 'never', message: `the gateway cannot listen on ${host}:${wanted.port} (--gateway-listen): ${reason}` },
      { cause: error },
    )
  })
  try {
    // 0.0.0.0 is not reachable; controllers can reach the address on the route to them.
    const reachable = settings.gatewayUrl ?? httpUrl(isWildcard(gateway.host) ? await findRoute(deps) : gateway.host, gateway.port)
    return { gateway, url: reachable }
  } catch (error) {
    await gateway.close()
    throw error
  }
}

async function openAt(deps: StartGatewayDeps, { host, port }: { host: string; port: number }): Promise<Gateway> {
  const { lastPort } = deps
  if (port !== 0 || lastPort === null) return await openGateway({ ...deps, host, port })
  try {
    return await openGateway({ ...deps, host, port: lastPort })
  } catch (error) {
    if (errorCode(error) !== 'EADDRINUSE') throw error
    return await openGateway({ ...deps, host, port })
  }
}

/** Retries until there are a network and DNS: a machine may start its worker before either. */
async function findRoute({ controllers, random, clock, log, signal }: StartGatewayDeps): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    for (const url of controllers) {
      signal.throwIfAborted()
      const found = await routeAddress(new URL(url)).catch((error: unknown) => {
        log.warn('cannot find a route to the controller; retrying', { url, reason: errorMessage(error) })
        return null
      })
      if (found !== null) return found
    }
    await clock.sleep(backoffMs(attempt, { baseMs: 500, maxMs: 4_000, jitter: 0.25 }, random()), signal)
  }
}

/** The source address that the kernel uses towards a host, read from a connected UDP socket; nothing is sent. */
export async function routeAddress(towards: URL): Promise<string> {
  const { address, family } = await lookup(towards.hostname.replace(/^\[(.*)\]$/, '$1'))
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4')
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.connect(Number(towards.port) || (towards.protocol === 'https:' ? 443 : 80), address, resolve)
    })
    return socket.address().address
  } finally {
    socket.close()
  }
}
