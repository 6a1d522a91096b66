// The bus within one process: no sockets, the same behaviour. Messages cross as text, so nothing is
// shared between the two ends, and handlers run in a later turn of the event loop.
import type { Clock, Log } from '@muster/host'
import { BusError } from '../bus.ts'
import type { Bus } from '../bus.ts'
import { BusConnection } from '../connection.ts'
import { clockTimer, realTimer } from '../timer.ts'
import type { OutgoingPacket, Packet, Wire, WireEvents } from '../wire.ts'
import { createSubjectTree } from './subject-tree.ts'

export interface LocalHub {
  connect(): Bus
  /** As if the server were gone: what is sent is lost, every connection sees it. */
  interrupt(): void
  /** As if it were back. */
  restore(): void
}

export interface LocalHubOptions {
  readonly log: Log
  /** Deadlines follow this clock; without one, real time. */
  readonly clock?: Clock
}

interface Ear {
  readonly queue: string | null
  deliver(packet: Packet): void
}

export function createLocalHub({ log, clock }: LocalHubOptions): LocalHub {
  const ears = createSubjectTree<Ear>()
  const connections = new Set<WireEvents>()
  const startTimer = clock === undefined ? realTimer : clockTimer(clock)
  let isUp = true
  let connectionsMade = 0
  let turn = 0

  const route = (packet: OutgoingPacket): void => {
    const hearing = ears.match(packet.subject)
    if (hearing.length === 0 && packet.reply !== null) {
      return route({ subject: packet.reply, text: '', reply: null, kind: 'no_responders' })
    }
    for (const ear of onePerQueue(hearing, turn++)) ear.deliver(packet)
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
        const remove = ears.add(pattern, { queue, deliver })
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

/** Everyone without a queue, and of each queue one in turn. */
function onePerQueue(ears: readonly Ear[], turn: number): Ear[] {
  const chosen: Ear[] = []
  const queues = new Map<string, Ear[]>()
  for (const ear of ears) {
    if (ear.queue === null) chosen.push(ear)
    else queues.set(ear.queue, [...(queues.get(ear.queue) ?? []), ear])
  }
  for (const members of queues.values()) {
    const member = members[turn % members.length]
    if (member !== undefined) chosen.push(member)
  }
  return chosen
}
