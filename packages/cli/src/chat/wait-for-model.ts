// Sends a request until the model answers: one that is being loaded is waited for, everything else is told.
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

// Tells whoever waits that the model is being loaded, and how far that is: one line of a terminal that is drawn again, or
// elsewhere a line for each step. Asks the controller while nothing is answered, as long as the key may.

interface LoadingNotice {
  show(loading: Loading): void
  clear(): void
  /** Asks and shows, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>
  /** What was heard last says that it is not there yet. */
  isLoading(): boolean
}

interface NoticeDeps {
  readonly api: Pick<ApiClient, 'call'>
  readonly clock: Pick<Clock, 'sleep'>
  readonly print: Pick<Printer, 'format' | 'remark'>
  readonly terminal: Pick<Terminal, 'status'>
  readonly model: ModelName
}

/** A model that is loaded has answered by then: nothing is asked, and nothing flickers. */
const firstAfterMs = 700
const everyMs = 1_000

export function createLoadingNotice({ api, clock, print, terminal: { status }, model }: NoticeDeps): LoadingNotice {
  let loading: Loading | null = null
  let said = ''

  function show(now: Loading): void {
    loading = isUnderway(now) ? now : null
    if (loading === null) return status?.clear()
    if (print.format === 'json') return
    if (status !== null) return status.show(plainText(`${model} is ${loadingText(loading)}`))
    const step = plainText(
      `${model} is ${loadingText({ ...loading, progress: 0, current_bytes: 0, total_bytes: 0, eta_seconds: undefined })}`,
    )
    if (step !== said) print.remark(step)
    said = step
  }

  return {
    show,
    clear: () => status?.clear(),
    isLoading: () => loading !== null,
    watch: async (signal) => {
      for (let pauseMs = firstAfterMs; ; pauseMs = everyMs) {
        await clock.sleep(pauseMs, signal).catch(() => undefined)
        if (signal.aborted) return
        try {
          const { body } = await api.call(modelRoutes.loadStatus, { params: { name: model }, signal })
          // The answer may have begun in the same moment.
          if (!signal.aborted) show(body)
        } catch (error) {
          // Not with this key, or not there: who waits is told by the answer alone.
          if (signal.aborted || isFinal(error)) return
        }
      }
    },
  }
}

const isUnderway = ({ state }: Loading): boolean =>
  state === 'pending' || state === 'installing' || state === 'staging' || state === 'loading'
