// The bounded queue between the bus and one handler: in order, one at a time. A slow handler loses its oldest messages,
// and delays no other handler; a sender that floods loses only its own messages. Also the counts of messages.
import type { Log } from '@muster/host'
import type { BusStats } from './bus.ts'
import { createSparseLog, type SparseLog } from './sparse-log.ts'

export interface Inbox<T> {
  /** Never calls the handler at once, but in a later turn of the event loop. */
  push(item: T, size: number): void
  /** Drops pending messages; resolves when the handler has ended. */
  stop(): Promise<void>
}

export interface InboxOptions<T> {
  readonly maxPending: number
  /** In the unit of `size`: many large messages must not fill the memory either. */
  readonly maxPendingSize: number
  /** How many messages of one sender may wait. An excess message is dropped when it arrives and displaces no other. */
  readonly perSender?: { readonly max: number; readonly senderOf: (item: T) => string }
  /** Must not throw. */
  readonly handle: (item: T) => Promise<void> | void
  readonly onDropped: () => void
  readonly onExcess: (item: T) => void
  /** Called once per time that the handler falls behind. */
  readonly onBurst: () => void
}

/** After so many messages, other work of the process gets its turn. */
const messagesPerTurn = 256

export function createInbox<T>(options: InboxOptions<T>): Inbox<T> {
  const queue = createQueue<T>()
  const senders = createSenderCounts(options.perSender)
  const idle: (() => void)[] = []
  let isRunning = false
  let isStopped = false
  let isBurst = false

  const take = (): T | undefined => {
    const item = queue.take()
    if (item !== undefined) senders.remove(item)
    return item
  }

  const dropOldest = (): void => {
    take()
    options.onDropped()
    if (!isBurst) options.onBurst()
    isBurst = true
  }

  const run = async (): Promise<void> => {
    for (let handled = 1; !isStopped; handled += 1) {
      const item = take()
      if (item === undefined) break
      const running = options.handle(item)
      if (running !== undefined) await running
      if (handled % messagesPerTurn === 0) await new Promise(setImmediate)
    }
    isRunning = false
    isBurst = false
    for (const resolve of idle.splice(0)) resolve()
  }

  return {
    push(item, size) {
      if (isStopped) return
      if (!senders.add(item)) return options.onExcess(item)
      queue.add(item, size)
      while (queue.length() > 1 && (queue.length() > options.maxPending || queue.size() > options.maxPendingSize)) dropOldest()
      if (isRunning) return
      isRunning = true
      setImmediate(() => void run())
    },
    async stop() {
      isStopped = true
      queue.clear()
      if (isRunning) await new Promise<void>((resolve) => idle.push(resolve))
    },
  }
}

/** Counts the waiting messages of each sender; only senders with waiting messages take memory. */
function createSenderCounts<T>(limit: InboxOptions<T>['perSender']) {
  const counts = new Map<string, number>()
  return {
    /** False: the sender already has as many messages waiting as it may. */
    add(item: T): boolean {
      if (limit === undefined) return true
      const sender = limit.senderOf(item)
      const count = counts.get(sender) ?? 0
      if (count >= limit.max) return false
      counts.set(sender, count + 1)
      return true
    },
    remove(item: T): void {
      if (limit === undefined) return
      const sender = limit.senderOf(item)
      const count = counts.get(sender) ?? 0
      if (count > 1) counts.set(sender, count - 1)
      else counts.delete(sender)
    },
  }
}

/** An array with a moving head: `shift` would copy the whole queue for each message. */
function createQueue<T>() {
  let entries: ({ readonly item: T; readonly size: number } | undefined)[] = []
  let head = 0
  let size = 0
  return {
    length: () => entries.length - head,
    size: () => size,
    add(item: T, itemSize: number): void {
      entries.push({ item, size: itemSize })
      size += itemSize
    },
    take(): T | undefined {
      const entry = entries[head]
      if (entry === undefined) return undefined
      entries[head] = undefined
      head += 1
      size -= entry.size
      if (head === entries.length) {
        entries.length = 0
        head = 0
      } else if (head > 4096) {
        entries = entries.slice(head)
        head = 0
      }
      return entry.item
    },
    clear(): void {
      entries = []
      head = 0
      size = 0
    },
  }
}

/** Counts messages, and logs losses sparsely. */
export class MessageCounts {
  sent = 0
  received = 0
  dropped = 0
  malformed = 0
  readonly #log: Log
  readonly #lost: SparseLog

  constructor(log: Log) {
    this.#log = log
    this.#lost = createSparseLog((reason, lost) => log.warn('message lost', { reason, lost }))
  }

  lose(): void {
    this.dropped += 1
    this.#lost.report('no connection to the bus')
  }

  /** After a reconnect, the next loss is logged again. */
  reconnected(): void {
    this.#lost.reset()
  }

  /** One per subscription: a flood on one does not silence the others. */
  malformedOn(subject: string): (reason: string) => void {
    const sparse = createSparseLog((reason, count) => this.#log.warn('message dropped: malformed', { subject, reason, count }))
    return (reason) => {
      this.malformed += 1
      sparse.report(reason)
    }
  }

  /** One per subscription, too. */
  excessOn(subject: string): (sender: string) => void {
    const write = (sender: string, count: number): void =>
      this.#log.warn('messages dropped: too many from one sender', { subject, sender, count })
    const sparse = createSparseLog(write)
    return (sender) => {
      this.dropped += 1
      sparse.report(sender)
    }
  }

  stats(): BusStats {
    const { sent, received, dropped, malformed } = this
    return { sent, received, dropped, malformed }
  }
}
