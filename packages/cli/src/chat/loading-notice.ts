// Tells whoever waits that the model is being loaded, and how far that is: one line of a terminal that is drawn again, or
// elsewhere a line for each step. Asks the controller while nothing is answered, as long as the key may.
import type { Clock } from '@muster/host'
import { type Loading, type ModelName, modelRoutes } from '@muster/protocol'
import type { ApiClient } from '../client/api-client.ts'
import { isFinal } from '../client/events.ts'
import { loadingText } from '../models/describe-model.ts'
import { plainText } from '../output/plain-text.ts'
import type { Printer } from '../output/printer.ts'
import type { Terminal } from '../output/terminal.ts'

export interface LoadingNotice {
  show(loading: Loading): void
  clear(): void
  /** Asks and shows, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>
  /** What was heard last says that it is not there yet. */
  isLoading(): boolean
}

export interface NoticeDeps {
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
