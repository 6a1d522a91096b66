// A node's connection to the cluster's NATS. It proves itself with the token that a controller signed
// for its key; the seed of that key stays here.
import { connectNats, nodeInboxPrefix } from '@muster/bus'
import type { Clock, Log, NodeKey } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { ConnectBus } from './bus-link.ts'

export const connectNatsBus =
  ({ key, clock, log }: { key: NodeKey; clock: Clock; log: Log }): ConnectBus =>
  async ({ nodeId, url, credentials }) => {
    if (url.startsWith('local:')) {
      throw new FleetError({
        code: 'unavailable',
        retry: 'never',
        message: "the controller's bus is inside its own process and can't be reached from this one",
      })
    }
    return connectNats({
      url,
      credentials: credentials() === null ? null : () => ({ jwt: credentials() ?? '', seed: key.seed.reveal() }),
      name: `muster worker ${nodeId}`,
      inboxPrefix: nodeInboxPrefix(nodeId),
      clock,
      log,
    })
  }
