// Ties the NATS wire to the Bus.
import type { Bus } from '../bus.ts'
import { BusConnection } from '../connection.ts'
import { realTimer } from '../timer.ts'
import type { NatsOptions } from './connect-nats.ts'
import { NatsWire } from './nats-wire.ts'
import { serversOf } from './server-options.ts'

export function createNatsBus(options: NatsOptions): Bus {
  const servers = serversOf(options.url)
  const log = options.log.child({ bus: servers.servers.join(',') })
  return new BusConnection({
    kind: 'nats',
    log,
    startTimer: realTimer,
    open: (events) => new NatsWire({ ...options, log, servers }, events),
  })
}
