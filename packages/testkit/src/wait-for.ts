// Waiting for something to become true, instead of sleeping and hoping.
import { availableParallelism, loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { inspect } from 'node:util'

/** Short at first, then a twentieth of the wait so far: a condition is often a request that costs the waiting machine itself. */
const pollMs = (waitedMs: number): number => Math.min(Math.max(waitedMs / 20, 10), 100)
/** Costs nothing while tests pass; a busy machine needs it. */
const patienceMs = 90_000

type Falsy = false | null | undefined | 0 | ''

export interface WaitOptions {
  /** The awaited condition, as the end of the sentence "waited 10000 ms for …". */
  readonly what: string
  readonly timeoutMs?: number
}

/** Returns the first truthy result of the condition. A condition that throws is called again. */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  { what, timeoutMs = patienceMs }: WaitOptions,
): Promise<Exclude<T, Falsy>> {
  const since = performance.now()
  const deadline = since + timeoutMs
  let seen = 'nothing: the condition never answered'
  for (;;) {
    const answer = await ask(condition, deadline - performance.now())
    if ('value' in answer && isTruthy(answer.value)) return answer.value
    if ('value' in answer) seen = inspect(answer.value, { depth: 6 })
    if ('error' in answer) seen = `an error: ${answer.error instanceof Error ? answer.error.message : inspect(answer.error)}`
    const pauseMs = pollMs(performance.now() - since)
    if (performance.now() + pauseMs >= deadline) throw new Error(`waited ${timeoutMs} ms for ${what}; last seen: ${seen}`)
    await delay(pauseMs)
  }
}

type Answer<T> = { value: T } | { error: unknown } | { hung: true }

async function ask<T>(condition: () => T | Promise<T>, remainingMs: number): Promise<Answer<T>> {
  const done = new AbortController()
  const hung = delay(Math.max(remainingMs, 1), { hung: true } as const, { signal: done.signal })
  try {
    return await Promise.race([
      Promise.resolve()
        .then(condition)
        .then((value) => ({ value })),
      hung,
    ])
  } catch (error) {
    return { error }
  } finally {
    done.abort()
    hung.catch(() => undefined)
  }
}

function isTruthy<T>(value: T): value is Exclude<T, Falsy> {
  return Boolean(value)
}

/** A bound in real time that a test proves: exact on an idle machine, stretched where processes wait for a core. */
export function boundMs(ms: number): number {
  const perCore = (loadavg()[0] ?? 0) / availableParallelism()
  return Math.round(ms * Math.max(1, 2 * perCore))
}
