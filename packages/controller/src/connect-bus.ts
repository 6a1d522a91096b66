// Connects the controller to the bus, and issues bus credentials to nodes.
import { type Bus, connectNats, createCredentialIssuer, type LocalHub, readNatsTls, withoutCredentials } from '@muster/bus'
import { createLoop, newId, type Clock, type Log } from '@muster/host'
import { type BusCredentials, createBusCredentials, noCredentials } from './nodes/bus-credentials.ts'
import { type ControllerSettings, isBusOpen } from './settings.ts'

/** Well before the controller's token, valid for a day, expires. */
const renewOwnEveryMs = 6 * 3_600_000
const retryAfterMs = 60_000

export interface ConnectedBus {
  readonly bus: Bus
  /** The bus URL for workers. */
  readonly url: string
  /** The certificates (PEM) of --nats-ca, for workers; null: none. */
  readonly ca: string | null
  readonly credentials: BusCredentials
}

export interface ConnectBusOptions {
  readonly settings: ControllerSettings
  readonly localHub?: LocalHub
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

export async function connectBus({ settings, localHub, clock, log, signal }: ConnectBusOptions): Promise<ConnectedBus> {
  if (settings.natsUrl === '' && localHub !== undefined)
    return { bus: localHub.connect(), url: 'local:', ca: null, credentials: noCredentials }
  if (isBusOpen(settings)) {
    log.warn(
      'NATS runs without node credentials: any client that reaches it can impersonate every node and controller; ' +
        'create a configuration with "muster nats-config" and give controllers the account seed (MUSTER_NATS_ACCOUNT_SEED_FILE)',
      { nats: withoutCredentials(settings.natsUrl) },
    )
  }
  const inboxPrefix = `_INBOX_${newId()}`
  const tls = readNatsTls(settings)
  const ca = tls?.ca ?? null
  const options = { url: settings.natsUrl, tls, name: 'muster controller', inboxPrefix, log, clock }
  // A controller's own password is not for workers; --worker-nats-url can carry one for them.
  const url = settings.workerNatsUrl || withoutCredentials(settings.natsUrl)
  if (settings.natsAccountSeed === undefined) return { bus: await connectNats(options), url, ca, credentials: noCredentials }

  const issuer = createCredentialIssuer({ accountSeed: settings.natsAccountSeed.reveal(), now: () => clock.now() })
  const own = await keepRenewed({
    make: () => issuer.forController(inboxPrefix),
    everyMs: renewOwnEveryMs,
    retryMs: retryAfterMs,
    what: "the controller's bus token",
    clock,
    log,
    signal,
  })
  return { bus: await connectNats({ ...options, credentials: own }), url, ca, credentials: createBusCredentials({ issuer, clock }) }
}

export interface KeepRenewedOptions<T> {
  readonly make: () => Promise<T>
  readonly everyMs: number
  /** Pause after a failure. */
  readonly retryMs: number
  /** Names the value in the log. */
  readonly what: string
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

/** Renews an expiring value until aborted; the result returns the newest one. Rejects only when the first cannot be made. */
export async function keepRenewed<T>({ make, everyMs, retryMs, what, clock, log, signal }: KeepRenewedOptions<T>): Promise<() => T> {
  let newest = await make()
  let isDue = false
  void createLoop({ what: `cannot renew ${what}; retrying`, clock, log, retryMs }).run(async () => {
    if (isDue) newest = await make()
    isDue = true
    return everyMs
  }, signal)
  return () => newest
}
