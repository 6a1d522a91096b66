// The controller's own place on the bus, and what nodes need to get onto it.
import { connectNats, createCredentialIssuer, withoutCredentials, type Bus, type LocalHub } from '@muster/bus'
import { newId, type Clock, type Log } from '@muster/host'
import { keepRenewed } from './keep-renewed.ts'
import { createBusCredentials, noCredentials, type BusCredentials } from './nodes/bus-credentials.ts'
import { isBusOpen, type ControllerSettings } from './settings.ts'

/** Long before a controller's token of a day ends. */
const renewOwnEveryMs = 6 * 3_600_000
const retryAfterMs = 60_000

export interface ConnectedBus {
  readonly bus: Bus
  /** What workers are told. */
  readonly url: string
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
  if (settings.natsUrl === '' && localHub !== undefined) return { bus: localHub.connect(), url: 'local:', credentials: noCredentials }
  if (isBusOpen(settings)) {
    log.warn(
      'nodes have no credentials of their own on NATS: whoever can reach it can speak for every node and every controller. ' +
        'Make a configuration for it with "muster nats-config", and give controllers the account seed (MUSTER_NATS_ACCOUNT_SEED_FILE)',
      { nats: withoutCredentials(settings.natsUrl) },
    )
  }
  const inboxPrefix = `_INBOX_${newId()}`
  const options = { url: settings.natsUrl, name: 'muster controller', inboxPrefix, log, clock }
  // A controller's own password is not for workers; whoever wants them to have one says so with --worker-nats-url.
  const url = settings.workerNatsUrl || withoutCredentials(settings.natsUrl)
  if (settings.natsAccountSeed === undefined) return { bus: await connectNats(options), url, credentials: noCredentials }

  const issuer = createCredentialIssuer({ accountSeed: settings.natsAccountSeed.reveal(), now: () => clock.now() })
  const own = await keepRenewed({
    make: () => issuer.forController(inboxPrefix),
    everyMs: renewOwnEveryMs,
    retryMs: retryAfterMs,
    what: "the controller's own token for the bus",
    clock,
    log,
    signal,
  })
  return { bus: await connectNats({ ...options, credentials: own }), url, credentials: createBusCredentials({ issuer, clock }) }
}
