// Has the web page ready, without anybody waiting for it: gives how far that is.
import type { Clock, Log } from '@muster/host'
import { buildPage, type PageBuildDeps } from './page-build.ts'
import { readPageFiles, type PageState } from './page-files.ts'

/** What failed may heal: a full disk, a clone that is being updated. */
const againAfterMs = 30_000

export interface StartPageDeps extends PageBuildDeps {
  readonly signal: AbortSignal
  readonly clock: Clock
  readonly log: Log
}

export function startPage({ signal, clock, log, ...deps }: StartPageDeps): () => PageState {
  let page: PageState = { state: 'building' }
  const make = async (): Promise<void> => {
    while (page.state !== 'built' && !signal.aborted) {
      try {
        page = { state: 'built', files: await readPageFiles(await buildPage(deps, signal)) }
      } catch (error) {
        if (signal.aborted) return
        const message = error instanceof Error ? error.message : String(error)
        if (page.state !== 'failed' || page.message !== message) log.error('there is no web page', { error })
        page = { state: 'failed', message }
        await clock.sleep(againAfterMs, signal).catch(() => undefined)
      }
    }
  }
  void make()
  return () => page
}
