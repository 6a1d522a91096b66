// Has the web page ready, without anybody waiting for it: gives how far that is.
import type { Log } from '@muster/host'
import { buildPage, type PageBuildDeps } from './page-build.ts'
import { readPageFiles, type PageState } from './page-files.ts'

export function startPage({ signal, log, ...deps }: PageBuildDeps & { signal: AbortSignal; log: Log }): () => PageState {
  let page: PageState = { state: 'building' }
  const make = async (): Promise<void> => {
    try {
      page = { state: 'built', files: await readPageFiles(await buildPage(deps, signal)) }
    } catch (error) {
      if (signal.aborted) return
      log.error('there is no web page', { error })
      page = { state: 'failed', message: error instanceof Error ? error.message : String(error) }
    }
  }
  void make()
  return () => page
}
