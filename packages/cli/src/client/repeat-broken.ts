// Sends a request again whose connection broke before the answer was there. Only for requests that are safe to repeat:
// nobody knows whether the first one was heard.
import { type Clock, errorCode } from '@muster/host'

/** Half a minute in all: a controller that restarts is back by then, or another one is asked. */
const delaysMs = [250, 500, 1000, 2000, 4000, 8000, 8000]

export async function retryBroken<T>(send: () => Promise<T>, clock: Pick<Clock, 'sleep'>): Promise<T> {
  try {
    return await send()
  } catch (error) {
    // Never heard, or heard by one that does not answer: whoever asked learns it at once.
    if (neverSent(error) || isTimeout(error)) throw error
  }
  for (const delay of delaysMs) {
    await clock.sleep(delay)
    try {
      return await send()
    } catch (error) {
      if (isTimeout(error)) throw error
    }
  }
  return send()
}

const isTimeout = (error: unknown): boolean => error instanceof Error && error.name === 'TimeoutError'

function neverSent(error: unknown): boolean {
  const code = errorCode(error instanceof AggregateError ? error.errors[0] : error)
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EAI_AGAIN' || code === 'EHOSTUNREACH' || code === 'ENETUNREACH'
}
