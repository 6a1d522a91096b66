// Opens the gateway where the settings say, or where the controllers can reach it, and tells its URL.
import { type Clock, type Log } from '@muster/host'
import { backoffMs, FleetError } from '@muster/protocol'
import type { WorkerSettings } from '../settings.ts'
import { openGateway, type Gateway, type GatewayDeps } from './gateway.ts'
import { httpUrl, isWildcard, parseListenAddress } from './listen-address.ts'
import { routeAddress } from './route-address.ts'

export type DoorDeps = Omit<GatewayDeps, 'host' | 'port'> &
  Readonly<{
    settings: Pick<WorkerSettings, 'gatewayListen' | 'gatewayUrl'>
    controllers: readonly [string, ...string[]]
    random: () => number
    clock: Clock
    log: Log
    signal: AbortSignal
  }>

export type Door = Readonly<{ gateway: Gateway; url: string }>

export async function openDoor(deps: DoorDeps): Promise<Door> {
  const { settings } = deps
  const wanted = parseListenAddress(settings.gatewayListen ?? ':0') ?? { host: null, port: 0 }
  const host = wanted.host ?? (await findRoute(deps))
  const gateway = await openGateway({ ...deps, host, port: wanted.port }).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    throw new FleetError(
      { code: 'invalid', retry: 'never', message: `the gateway can't listen on ${host}:${wanted.port} (--gateway-listen): ${reason}` },
      { cause: error },
    )
  })
  try {
    // Nobody can call 0.0.0.0; the address that leads to the controllers is the one they can answer to.
    const reachable = settings.gatewayUrl ?? httpUrl(isWildcard(gateway.host) ? await findRoute(deps) : gateway.host, gateway.port)
    return { gateway, url: reachable }
  } catch (error) {
    await gateway.close()
    throw error
  }
}

/** Until there is a network and a name service: a machine may start its worker before either. */
async function findRoute({ controllers, random, clock, log, signal }: DoorDeps): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    for (const url of controllers) {
      signal.throwIfAborted()
      const found = await routeAddress(new URL(url)).catch((error: unknown) => {
        log.warn('no way to the controller yet; trying on', { url, reason: error instanceof Error ? error.message : String(error) })
        return null
      })
      if (found !== null) return found
    }
    await clock.sleep(backoffMs(attempt, { baseMs: 500, maxMs: 4_000, jitter: 0.25 }, random()), signal)
  }
}
