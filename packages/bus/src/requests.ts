// Requests of ours that wait for their answer.
import { BusError } from './bus.ts'
import type { StartTimer } from './timer.ts'
import type { Packet } from './wire.ts'

interface Waiting {
  readonly subject: string
  resolve(answer: Packet): void
  reject(reason: unknown): void
}

export interface RequestLimits {
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

export class Requests {
  readonly #startTimer: StartTimer
  readonly #waiting = new Map<string, Waiting>()
  #last = 0

  constructor(startTimer: StartTimer) {
    this.#startTimer = startTimer
  }

  /** The token names the request in the subject of its answer. */
  open(subject: string, { timeoutMs, signal }: RequestLimits): { readonly token: string; readonly answer: Promise<Packet> } {
    this.#last += 1
    const token = this.#last.toString(36)
    const answer = new Promise<Packet>((resolve, reject) => {
      const done = (): void => {
        this.#waiting.delete(token)
        cancelTimer()
        signal?.removeEventListener('abort', onAbort)
      }
      const waiting: Waiting = {
        subject,
        resolve: (packet) => {
          done()
          resolve(packet)
        },
        reject: (reason) => {
          done()
          reject(reason)
        },
      }
      const onAbort = (): void => waiting.reject(signal?.reason)
      const cancelTimer = this.#startTimer(timeoutMs, () =>
        waiting.reject(new BusError('timeout', `no answer from ${subject} within ${timeoutMs} ms`)),
      )
      signal?.addEventListener('abort', onAbort)
      this.#waiting.set(token, waiting)
    })
    return { token, answer }
  }

  /** An answer to nothing (too late, or never asked) is thrown away. */
  answer(token: string, packet: Packet): void {
    this.#waiting.get(token)?.resolve(packet)
  }

  fail(token: string, error: unknown): void {
    this.#waiting.get(token)?.reject(error)
  }

  failSubject(subject: string, error: BusError): void {
    for (const waiting of this.#waiting.values()) if (waiting.subject === subject) waiting.reject(error)
  }

  failAll(error: (subject: string) => BusError): void {
    for (const waiting of this.#waiting.values()) waiting.reject(error(waiting.subject))
  }
}
