// The addresses of the page. What is chosen, filtered and open is in them: back works, and a link can be shared.
import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  lazyRouteComponent as lazy,
  Link,
} from '@tanstack/react-router'
import { z } from 'zod'
import { Failed } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { followTrail } from '../components/dialog.tsx'
import { Frame } from './frame.tsx'

const text = z.string().max(512).optional().catch(undefined)

const root = createRootRoute({
  component: Frame,
  /** `op`: the operation whose drawer is open, over whatever page. */
  validateSearch: z.object({ op: text }),
  notFoundComponent: NoSuchPage,
  errorComponent: FailedPage,
})

const overview = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyRouteComponent(() => import('../pages/overview-page.tsx'), 'OverviewPage'),
})
const nodes = createRoute({
  getParentRoute: () => root,
  path: '/nodes',
  /** `ask`: what the open sheet asks about, of the node `on`. */
  validateSearch: z.object({
    ...{ q: text, type: text, state: text, label: text, ask: text, on: text },
    add: z.boolean().optional().catch(undefined),
  }),
  component: lazyRouteComponent(() => import('../pages/nodes-page.tsx'), 'NodesPage'),
})
const node = createRoute({
  getParentRoute: () => root,
  path: '/nodes/$id',
  validateSearch: z.object({ tab: text, model: text, q: text, ask: text }),
  component: lazyRouteComponent(() => import('../pages/node-page.tsx'), 'NodePage'),
})
const backends = createRoute({
  getParentRoute: () => root,
  path: '/backends',
  validateSearch: z.object({ tab: text, q: text, wish: text, backend: text }),
  component: lazyRouteComponent(() => import('../pages/backends-page.tsx'), 'BackendsPage'),
})
const models = createRoute({
  getParentRoute: () => root,
  path: '/models',
  /** `act` on `model`: the sheet that is open. */
  validateSearch: z.object({ tab: text, q: text, state: text, act: text, model: text }),
  component: lazyRouteComponent(() => import('../pages/models-page.tsx'), 'ModelsPage'),
})
const newModel = createRoute({
  getParentRoute: () => root,
  path: '/models/new',
  component: lazyRouteComponent(() => import('../pages/new-model-page.tsx'), 'NewModelPage'),
})
const model = createRoute({
  getParentRoute: () => root,
  path: '/models/$name',
  validateSearch: z.object({ tab: text, act: text }),
  component: lazyRouteComponent(() => import('../pages/model-page.tsx'), 'ModelPage'),
})
const operations = createRoute({
  getParentRoute: () => root,
  path: '/operations',
  validateSearch: z.object({ tab: text, q: text, kind: text }),
  component: lazyRouteComponent(() => import('../pages/operations-page.tsx'), 'OperationsPage'),
})
const playground = createRoute({
  getParentRoute: () => root,
  path: '/playground',
  validateSearch: z.object({ model: text, tab: text }),
  component: lazyRouteComponent(() => import('../pages/playground-page.tsx'), 'PlaygroundPage'),
})
const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  validateSearch: z.object({ tab: text, q: text, open: text }),
  component: lazyRouteComponent(() => import('../pages/settings-page.tsx'), 'SettingsPage'),
})

const routeTree = root.addChildren([overview, nodes, node, backends, models, newModel, model, operations, playground, settings])

export function createAppRouter() {
  const router = createRouter({
    routeTree,
    defaultPreload: 'intent',
    scrollRestoration: true,
    // Inside of the frame: one can go elsewhere.
    defaultErrorComponent: FailedPage,
    defaultNotFoundComponent: NoSuchPage,
  })
  followTrail(router)
  const stop = router.subscribe('onRendered', () => {
    stop()
    fetchAllPages()
  })
  return router
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>
  }
}

function NoSuchPage() {
  return (
    <Page title="No such page" sentence="Nothing is at this address. It may have been renamed or removed.">
      <p>
        <Link to="/" className="underline underline-offset-2">
          Go to the overview
        </Link>
      </p>
    </Page>
  )
}

function FailedPage({ error }: ErrorComponentProps) {
  return (
    <Page title="This page failed" sentence="The rest of Muster is not concerned. If it happens again, it is a bug.">
      <Failed
        title="What the browser says:"
        error={error instanceof Error ? error : new Error(String(error))}
        onRetry={() => location.reload()}
      />
    </Page>
  )
}

const importers: (() => Promise<unknown>)[] = []
const askEveryMs = 1_000
/** A second failure so soon is no upgrade. */
const reloadAgainAfterMs = 60_000
const mark = 'muster.reloaded'

/** Like the router's own, but a controller that is away is waited for instead of leaving the page. */
const lazyRouteComponent: typeof lazy = (importer, exportName) => {
  const patient: typeof importer = () => importer().catch((error: unknown) => afterFailure(error))
  importers.push(importer)
  return lazy(patient, exportName)
}

/** Once the first page is there: whoever goes elsewhere waits for nothing, also while the controller is away. What fails is fetched later. */
function fetchAllPages(): void {
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
