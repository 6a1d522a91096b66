// What became of messages: counted always, logged sparsely.
import type { Log } from '@muster/host'
import type { BusStats } from './bus.ts'
import { createSparse, type Sparse } from './sparse.ts'

export class Tally {
  sent = 0
  received = 0
  dropped = 0
  malformed = 0
  readonly #log: Log
  readonly #lost: Sparse

  constructor(log: Log) {
    this.#log = log
    this.#lost = createSparse((reason, lost) => log.warn(`message lost: ${reason}`, { lost }))
  }

  lose(): void {
    this.dropped += 1
    this.#lost.note('no connection to the bus')
  }

  /** The connection is back: the next loss is another one. */
  reconnected(): void {
    this.#lost.reset()
  }

  /** For one subscription: so that the flood of one does not silence the others. */
  malformedOn(subject: string): (reason: string) => void {
    const sparse = createSparse((reason, count) => this.#log.warn('message dropped: not what it should be', { subject, reason, count }))
    return (reason) => {
      this.malformed += 1
      sparse.note(reason)
    }
  }

  stats(): BusStats {
    const { sent, received, dropped, malformed } = this
    return { sent, received, dropped, malformed }
  }
}
