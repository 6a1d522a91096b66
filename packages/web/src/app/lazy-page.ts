// The code of a page, fetched when it is first shown, or before that while nothing else is to be done. A controller that
// was upgraded meanwhile has no files of the old build any more: then everything is loaded anew, once.
import { lazyRouteComponent as lazy } from '@tanstack/react-router'

const importers: (() => Promise<unknown>)[] = []
const askEveryMs = 1_000
/** A second failure so soon is no upgrade. */
const reloadAgainAfterMs = 60_000
const mark = 'muster.reloaded'

/** Like the router's own, but a controller that is away is waited for instead of leaving the page. */
export const lazyRouteComponent: typeof lazy = (importer, exportName) => {
  const patient: typeof importer = () => importer().catch((error: unknown) => afterFailure(error))
  importers.push(importer)
  return lazy(patient, exportName)
}

/** Once the first page is there: whoever goes elsewhere waits for nothing, also while the controller is away. What fails is fetched later. */
export function fetchAllPages(): void {
  const later = window.requestIdleCallback ?? ((run: () => void) => setTimeout(run, 1_000))
  later(() => void Promise.allSettled(importers.map((importer) => importer())))
}

async function afterFailure(error: unknown): Promise<never> {
  await untilAnswered()
  if (Date.now() - Number(sessionStorage.getItem(mark) ?? 0) < reloadAgainAfterMs) throw error
  sessionStorage.setItem(mark, String(Date.now()))
  location.reload()
  return await new Promise<never>(() => undefined)
}

async function untilAnswered(): Promise<void> {
  for (;;) {
    const isThere = await fetch('/', { cache: 'no-store' }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isThere) return
    await new Promise((resolve) => setTimeout(resolve, askEveryMs))
  }
}
