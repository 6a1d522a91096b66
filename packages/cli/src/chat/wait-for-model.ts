// Sends a request until the model answers: one that is being loaded is waited for, everything else is told.
import type { Clock } from '@muster/host'
import { Loading } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { LoadingNotice } from './loading-notice.ts'

export interface WaitDeps {
  readonly clock: Pick<Clock, 'sleep' | 'monotonic'>
  readonly notice: LoadingNotice
  readonly waitMs: number
  /** Ends the waiting, and the request. */
  readonly signal: AbortSignal
}

const pauseMs = { least: 200, usual: 1_000, most: 30_000 }

export async function waitForModel<T>(send: (signal: AbortSignal) => Promise<T>, deps: WaitDeps): Promise<T> {
  const { clock, notice, waitMs, signal } = deps
  const ended = new AbortController()
  const late = new AbortController()
  let lastRefusal: unknown = null
  const until = clock.monotonic() + waitMs
  void notice.watch(AbortSignal.any([signal, ended.signal]))
  // A request that is on its way is given up only if it waits for the model: an answer may take as long as it takes.
  void clock.sleep(waitMs, ended.signal).then(
    () => notice.isLoading() && late.abort(),
    () => undefined,
  )
  try {
    for (;;) {
      try {
        return await send(AbortSignal.any([signal, late.signal]))
      } catch (error) {
        signal.throwIfAborted()
        const refused = loadingIn(error)
        if (refused === null && !late.signal.aborted) throw error
        if (refused !== null) lastRefusal = error
        if (refused?.loading !== undefined) notice.show(refused.loading)
        const leftMs = until - clock.monotonic()
        if (leftMs <= 0 || late.signal.aborted) throw tooLate(lastRefusal ?? error)
        const askedMs = Math.max(refused?.retryAfterMs ?? pauseMs.usual, pauseMs.least)
        await clock.sleep(Math.min(askedMs, pauseMs.most, leftMs), signal)
      }
    }
  } finally {
    ended.abort()
    notice.clear()
  }
}

/** Null: refused for another reason. */
function loadingIn(error: unknown): { loading: Loading | undefined; retryAfterMs: number | null } | null {
  if (!(error instanceof CliError) || error.code !== 'model_loading' || error.refusal === null) return null
  const { answer, retryAfterMs } = error.refusal
  const raw = typeof answer === 'object' && answer !== null && 'loading' in answer ? answer.loading : undefined
  return { loading: Loading.safeParse(raw).data, retryAfterMs }
}

const tooLate = (error: unknown): CliError =>
  new CliError(error instanceof CliError ? error.message : 'the model is still loading', {
    exitCode: 3,
    cause: error,
    hint: 'it goes on loading; --wait=30m waits longer, `muster models why NAME` says how far it is',
    ...(error instanceof CliError && error.code !== null ? { code: error.code } : {}),
  })
