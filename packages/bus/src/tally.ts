// What became of messages: counted always, logged sparsely.
import type { Log } from '@muster/host'
import type { BusStats } from './bus.ts'
import { sparse } from './sparse.ts'

export class Tally {
  sent = 0
  received = 0
  dropped = 0
  malformed = 0
  readonly #log: Log
  readonly #logLost: () => void

  constructor(log: Log) {
    this.#log = log
    this.#logLost = sparse((lost) => log.warn('message lost: no connection to the bus', { lost }))
  }

  lose(): void {
    this.dropped += 1
    this.#logLost()
  }

  /** For one subscription: so that the flood of one does not silence the others. */
  malformedOn(subject: string): (reason: string) => void {
    let last = ''
    const say = sparse((count) => this.#log.warn('message dropped: not what it should be', { subject, reason: last, count }))
    return (reason) => {
      last = reason
      this.malformed += 1
      say()
    }
  }

  stats(): BusStats {
    const { sent, received, dropped, malformed } = this
    return { sent, received, dropped, malformed }
  }
}
