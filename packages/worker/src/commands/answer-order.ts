// How a command about a backend is answered: to those who ask for `async`, that it was accepted; to all
// others, at its end, how it came out. Either way nobody else waits for it.
import { FleetError, type CommandReply, type Failure } from '@muster/protocol'
import type { Order } from '../operations/order.ts'
import type { CommandContext } from './command.ts'

export async function answerOrder(
  order: Order,
  { isAsync, context }: { isAsync: boolean; context: CommandContext },
): Promise<CommandReply> {
  const { operations, signal } = context
  const submitted = await operations.submit(order)
  if (isAsync) return submitted.accepted ? { accepted: true } : { accepted: false, failure: submitted.failure }
  if (!submitted.accepted) return failed(submitted.failure)
  const outcome = await whileHere(submitted.ended, signal)
  return outcome.state === 'succeeded' ? { success: true } : failed(outcome.failure)
}

/** For callers who know text alone. */
export const failed = ({ code, message }: Failure): CommandReply => ({
  success: false,
  error: (message.startsWith(code) ? message : `${code}: ${message}`).slice(0, 8192),
})

export function whileHere<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const message = 'this worker leaves the bus before the work is done; what became of it is told when it is back'
  const left = Promise.withResolvers<never>()
  const onAbort = (): void => left.reject(new FleetError({ code: 'unavailable', retry: 'backoff', message }))
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  return Promise.race([promise, left.promise]).finally(() => signal.removeEventListener('abort', onAbort))
}
