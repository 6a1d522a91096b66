// The bus within one process: the same behavior without sockets. Messages are text, so the two ends share no objects, and
// handlers run in a later turn of the event loop.
import type { Clock, Log } from '@muster/host'
import { BusError } from '../bus.ts'
import type { Bus } from '../bus.ts'
import { BusConnection } from '../connection.ts'
import { clockTimer, realTimer } from '../timer.ts'
import type { OutgoingPacket, Packet, Wire, WireEvents } from '../wire.ts'
import { createSubjectTree } from './subject-tree.ts'

export interface LocalHub {
  connect(): Bus
  /** Simulates a lost server: messages are lost, every connection is notified. */
  interrupt(): void
  /** Simulates its return. */
  restore(): void
}

export interface LocalHubOptions {
  readonly log: Log
  /** Deadlines follow this clock; without one, real time. */
  readonly clock?: Clock
}

interface Subscriber {
  readonly queue: string | null
  deliver(packet: Packet): void
}

export function createLocalHub({ log, clock }: LocalHubOptions): LocalHub {
  const subscribers = createSubjectTree<Subscriber>()
  const connections = new Set<WireEvents>()
  const startTimer = clock === undefined ? realTimer : clockTimer(clock)
  let isUp = true
  let connectionsMade = 0
  let turn = 0

  const route = (packet: OutgoingPacket): void => {
    const matching = subscribers.match(packet.subject)
    if (matching.length === 0 && packet.reply !== null) {
      return route({ subject: packet.reply, text: '', reply: null, kind: 'no_responders' })
    }
    for (const subscriber of onePerQueue(matching, turn++)) subscriber.deliver(packet)
  }

  const openWire = (events: WireEvents): Wire => {
    connections.add(events)
    connectionsMade += 1
    const own = new Set<() => void>()
    let isOpen = true
    if (isUp) events.connected(true)
    return {
      inbox: `_INBOX.${connectionsMade}`,
      send(packet) {
        if (!isUp || !isOpen) return false
        route(packet)
        return true
      },
      listen(pattern, queue, deliver) {
        const remove = subscribers.add(pattern, { queue, deliver })
        own.add(remove)
        const stop = (): void => {
          remove()
          own.delete(remove)
        }
        return { stop, drain: async () => stop() }
      },
      async ping() {
        if (!isUp) throw new BusError('disconnected', 'no connection to the bus')
        await new Promise(setImmediate)
      },
      async close() {
        isOpen = false
        for (const remove of own) remove()
        connections.delete(events)
      },
    }
  }

  const setUp = (value: boolean): void => {
    isUp = value
    for (const events of [...connections]) events.connected(value)
  }

  return {
    connect: () => new BusConnection({ kind: 'local', log, startTimer, open: openWire }),
    interrupt: () => setUp(false),
    restore: () => setUp(true),
  }
}

/** All subscribers without a queue, and one of each queue in turn. */
function onePerQueue(subscribers: readonly Subscriber[], turn: number): Subscriber[] {
  const chosen: Subscriber[] = []
  const queues = new Map<string, Subscriber[]>()
  for (const subscriber of subscribers) {
    if (subscriber.queue === null) chosen.push(subscriber)
    else queues.set(subscriber.queue, [...(queues.get(subscriber.queue) ?? []), subscriber])
  }
  for (const members of queues.values()) {
    const member = members[turn % members.length]
    if (member !== undefined) chosen.push(member)
  }
  return chosen
}
