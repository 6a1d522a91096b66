// Waiting for something to become true, instead of sleeping and hoping.
import { setTimeout as delay } from 'node:timers/promises'
import { inspect } from 'node:util'

const pollMs = 20

type Falsy = false | null | undefined | 0 | ''

export interface WaitOptions {
  /** What is waited for, as the end of the sentence "waited 10000 ms for …". */
  readonly what: string
  readonly timeoutMs?: number
}

/** Returns the first truthy answer of the condition. One that throws is asked again, and so is one that hangs. */
export async function waitFor<T>(condition: () => T | Promise<T>, { what, timeoutMs = 30_000 }: WaitOptions): Promise<Exclude<T, Falsy>> {
  const deadline = performance.now() + timeoutMs
  let seen = 'nothing: the condition never answered'
  for (;;) {
    const answer = await ask(condition, deadline - performance.now())
    if ('value' in answer && isTruthy(answer.value)) return answer.value
    if ('value' in answer) seen = inspect(answer.value, { depth: 6 })
    if ('error' in answer) seen = `an error: ${answer.error instanceof Error ? answer.error.message : inspect(answer.error)}`
    if (performance.now() + pollMs >= deadline) throw new Error(`waited ${timeoutMs} ms for ${what}; last seen: ${seen}`)
    await delay(pollMs)
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
