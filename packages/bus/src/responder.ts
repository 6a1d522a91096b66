// Requests of others that wait for our answer. Each runs on its own, so a slow one holds up no other;
// beyond a high limit new ones are refused at once instead of piling up.
import type { Failure } from '@muster/protocol'
import type { Packet } from './wire.ts'

export type Answer = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly failure: Failure }

export interface Responder {
  accept(request: Packet): void
  /** Resolves when no handler runs any more. */
  settled(): Promise<void>
}

export interface ResponderOptions {
  readonly maxInFlight: number
  /** Must not reject. */
  readonly work: (request: Packet) => Promise<Answer>
  readonly send: (replyTo: string, answer: Answer) => void
  /** Nobody waits for an answer, so nobody would learn of a failure. */
  readonly onNoReply: () => void
}

export function createResponder({ maxInFlight, work, send, onNoReply }: ResponderOptions): Responder {
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
    accept(request) {
      const replyTo = request.reply
      if (replyTo === null) return onNoReply()
      if (inFlight >= maxInFlight) {
        const message = `${request.subject} is busy with ${inFlight} requests; try again later`
        return send(replyTo, { ok: false, failure: { code: 'unavailable', retry: 'backoff', message } })
      }
      inFlight += 1
      if (accepted.push({ request, replyTo }) === 1) setImmediate(runAccepted)
    },
    async settled() {
      if (inFlight > 0) await new Promise<void>((resolve) => idle.push(resolve))
    },
  }
}
