// Sends a request until the model is loaded, and shows the progress of the load meanwhile.
import type { Clock } from '@muster/host'
import { Loading, type ModelName, modelRoutes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import { isFinal } from '../client/events.ts'
import { loadingText } from '../models/describe-model.ts'
import type { Printer, Terminal } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'

export interface WaitDeps {
  readonly clock: Pick<Clock, 'sleep' | 'monotonic'>
  readonly notice: ReturnType<typeof createLoadingNotice>
  readonly waitMs: number
  /** Ends the wait and the request. */
  readonly signal: AbortSignal
}

const pausesMs = { least: 200, usual: 1_000, most: 30_000 }

export async function waitForModel<T>(send: (signal: AbortSignal) => Promise<T>, deps: WaitDeps): Promise<T> {
  const { clock, notice, waitMs, signal } = deps
  const ended = new AbortController()
  const late = new AbortController()
  let lastRefusal: unknown = null
  const until = clock.monotonic() + waitMs
  void notice.watch(AbortSignal.any([signal, ended.signal]))
  // The limit cancels only a request that waits for the model; an answer may take longer.
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
        const refusal = loadingIn(error)
        if (refusal === null && !late.signal.aborted) throw error
        if (refusal !== null) lastRefusal = error
        if (refusal?.loading !== undefined) notice.show(refusal.loading)
        const leftMs = until - clock.monotonic()
        if (leftMs <= 0 || late.signal.aborted) throw tooLate(lastRefusal ?? error)
        const retryMs = Math.max(refusal?.retryAfterMs ?? pausesMs.usual, pausesMs.least)
        await clock.sleep(Math.min(retryMs, pausesMs.most, leftMs), signal)
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
    hint: 'the load continues; --wait=30m waits longer, `muster models why NAME` shows its progress',
    code: error instanceof CliError ? error.code : null,
  })

interface NoticeDeps {
  readonly api: Pick<ApiClient, 'call'>
  readonly clock: Pick<Clock, 'sleep'>
  readonly print: Pick<Printer, 'format' | 'remark'>
  readonly terminal: Pick<Terminal, 'status'>
  readonly model: ModelName
}

/** A loaded model usually answers before this: then nothing is polled, and nothing flickers. */
const firstAfterMs = 700
const everyMs = 1_000

/** One line that is redrawn on a terminal; otherwise a line per step of the load. */
export function createLoadingNotice({ api, clock, print, terminal: { status }, model }: NoticeDeps) {
  let loading: Loading | null = null
  let printed = ''

  function show(now: Loading): void {
    loading = isUnderway(now) ? now : null
    if (loading === null) return status?.clear()
    if (print.format === 'json') return
    if (status !== null) return status.show(plainText(`${model} is ${loadingText(loading)}`))
    const step = plainText(
      `${model} is ${loadingText({ ...loading, progress: 0, current_bytes: 0, total_bytes: 0, eta_seconds: undefined })}`,
    )
    if (step !== printed) print.remark(step)
    printed = step
  }

  return {
    show,
    clear: () => status?.clear(),
    /** True while the last known state is a load in progress. */
    isLoading: () => loading !== null,
    /** Polls and shows the progress until the signal aborts. */
    watch: async (signal: AbortSignal): Promise<void> => {
      for (let pauseMs = firstAfterMs; ; pauseMs = everyMs) {
        await clock.sleep(pauseMs, signal).catch(() => undefined)
        if (signal.aborted) return
        try {
          const { body } = await api.call(modelRoutes.loadStatus, { params: { name: model }, signal })
          // The answer may have begun in the meantime.
          if (!signal.aborted) show(body)
        } catch (error) {
          // The key may not read the status, or there is none: only the answer shows the result.
          if (signal.aborted || isFinal(error)) return
        }
      }
    },
  }
}

const isUnderway = ({ state }: Loading): boolean =>
  state === 'pending' || state === 'installing' || state === 'staging' || state === 'loading'
