// Requests: those of this process that wait for their answer, and those of others that it answers.
import type { Failure } from '@muster/protocol'
import { BusError } from './bus.ts'
import type { StartTimer } from './timer.ts'
import type { Packet } from './wire.ts'

interface PendingRequest {
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
  readonly #pending = new Map<string, PendingRequest>()
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
        this.#pending.delete(token)
        cancelTimer()
        signal?.removeEventListener('abort', onAbort)
      }
      const pending: PendingRequest = {
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
      const onAbort = (): void => pending.reject(signal?.reason)
      const cancelTimer = this.#startTimer(timeoutMs, () =>
        pending.reject(new BusError('timeout', `no answer from ${subject} within ${timeoutMs} ms`)),
      )
      signal?.addEventListener('abort', onAbort)
      this.#pending.set(token, pending)
    })
    return { token, answer }
  }

  /** A late or unknown answer is dropped. */
  answer(token: string, packet: Packet): void {
    this.#pending.get(token)?.resolve(packet)
  }

  fail(token: string, error: unknown): void {
    this.#pending.get(token)?.reject(error)
  }

  failSubject(subject: string, error: BusError): void {
    for (const pending of this.#pending.values()) if (pending.subject === subject) pending.reject(error)
  }

  failAll(error: (subject: string) => BusError): void {
    for (const pending of this.#pending.values()) pending.reject(error(pending.subject))
  }
}

export type Answer = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly failure: Failure }

interface ResponderOptions {
  readonly maxInFlight: number
  /** Must not reject. */
  readonly work: (request: Packet) => Promise<Answer>
  readonly send: (replyTo: string, answer: Answer) => void
  /** A request without a reply subject: nothing can be answered. */
  readonly onNoReply: () => void
}

/** Answers requests concurrently; beyond `maxInFlight` new ones are refused at once. */
export function createResponder({ maxInFlight, work, send, onNoReply }: ResponderOptions) {
  const accepted: { readonly request: Packet; readonly replyTo: string }[] = []
  const idle: (() => void)[] = []
  let inFlight = 0

  // Together, in a later turn: a sender in this process is never re-entered, and the replies of quick
  // handlers leave in one write.
  const runAccepted = (): void => {
    for (const { request, replyTo } of accepted.splice(0)) void run(request, replyTo)
  }
  const run = async (request: Packet, replyTo: string): Promise<void> => {
    send(replyTo, await work(request))
    inFlight -= 1
    if (inFlight === 0) for (const resolve of idle.splice(0)) resolve()
  }

  return {
    accept(request: Packet): void {
      const replyTo = request.reply
      if (replyTo === null) return onNoReply()
      if (inFlight >= maxInFlight) {
        const message = `${request.subject} is busy with ${inFlight} requests; try again later`
        return send(replyTo, { ok: false, failure: { code: 'unavailable', retry: 'backoff', message } })
      }
      inFlight += 1
      if (accepted.push({ request, replyTo }) === 1) setImmediate(runAccepted)
    },
    /** Resolves when no handler runs any more. */
    async settled(): Promise<void> {
      if (inFlight > 0) await new Promise<void>((resolve) => idle.push(resolve))
    },
  }
}
