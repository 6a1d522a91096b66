// The routes of the app. Filters, tabs and open dialogs are search parameters, so that "back" works and links can be shared.
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
import { recordHistory } from '../components/dialog.tsx'
import { Frame } from './frame.tsx'

const importers: (() => Promise<unknown>)[] = []
const pollMs = 1_000
/** A second failure within this time is not caused by an upgrade. */
const reloadAgainAfterMs = 60_000
const reloadedKey = 'muster.reloaded'

/**
 * Loads a page's code when it is first shown. When that fails, waits for the controller and reloads the app once: after an
 * upgrade the controller no longer has the files of the old build.
 */
const lazyRouteComponent: typeof lazy = (importer, exportName) => {
  const patient: typeof importer = () => importer().catch((error: unknown) => reloadApp(error))
  importers.push(importer)
  return lazy(patient, exportName)
}

/** Loads all pages in idle time, so that they open at once, also while the controller is unreachable. */
function preloadPages(): void {
  const later = window.requestIdleCallback ?? ((run: () => void) => setTimeout(run, 1_000))
  later(() => void Promise.allSettled(importers.map((importer) => importer())))
}

async function reloadApp(error: unknown): Promise<never> {
  await untilReachable()
  if (Date.now() - Number(sessionStorage.getItem(reloadedKey) ?? 0) < reloadAgainAfterMs) throw error
  sessionStorage.setItem(reloadedKey, String(Date.now()))
  location.reload()
  return await new Promise<never>(() => undefined)
}

async function untilReachable(): Promise<void> {
  for (;;) {
    const isReachable = await fetch('/', { cache: 'no-store' }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isReachable) return
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
}

function NotFoundPage() {
  return (
    <Page title="Page not found" sentence="The page does not exist. It may have been renamed or removed.">
      <p>
        <Link to="/" className="underline underline-offset-2">
          Go to overview
        </Link>
      </p>
    </Page>
  )
}

function ErrorPage({ error }: ErrorComponentProps) {
  return (
    <Page title="This page crashed" sentence="The cluster is not affected. If this happens again, report a bug.">
      <Failed title="Error message" error={error instanceof Error ? error : new Error(String(error))} onRetry={() => location.reload()} />
    </Page>
  )
}

const text = z.string().max(512).optional().catch(undefined)

const root = createRootRoute({
  component: Frame,
  /** `op`: the operation whose drawer is open, on any page. */
  validateSearch: z.object({ op: text }),
  notFoundComponent: NotFoundPage,
  errorComponent: ErrorPage,
})

const overview = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyRouteComponent(() => import('../pages/overview-page.tsx'), 'OverviewPage'),
})
const nodes = createRoute({
  getParentRoute: () => root,
  path: '/nodes',
  /** `act` on `node`, or on the `picked` ones: the open confirmation. */
  validateSearch: z.object({
    ...{ q: text, type: text, state: text, label: text, act: text, node: text },
    picked: z.string().max(100_000).optional().catch(undefined),
    add: z.boolean().optional().catch(undefined),
  }),
  component: lazyRouteComponent(() => import('../pages/nodes-page.tsx'), 'NodesPage'),
})
const node = createRoute({
  getParentRoute: () => root,
  path: '/nodes/$id',
  /** `act` on the model `on`: the open confirmation. */
  validateSearch: z.object({ tab: text, model: text, q: text, act: text, on: text }),
  component: lazyRouteComponent(() => import('../pages/node-page.tsx'), 'NodePage'),
})
const backends = createRoute({
  getParentRoute: () => root,
  path: '/backends',
  validateSearch: z.object({ tab: text, q: text, act: text, backend: text, dev: text }),
  component: lazyRouteComponent(() => import('../pages/backends-page.tsx'), 'BackendsPage'),
})
const models = createRoute({
  getParentRoute: () => root,
  path: '/models',
  /** `act` on `model`: the open confirmation. */
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
  /** `act` on the node `on`: the open confirmation. */
  validateSearch: z.object({ tab: text, act: text, on: text }),
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
    // Inside the frame, so that the navigation stays.
    defaultErrorComponent: ErrorPage,
    defaultNotFoundComponent: NotFoundPage,
  })
  recordHistory(router)
  const stop = router.subscribe('onRendered', () => {
    stop()
    preloadPages()
  })
  return router
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>
  }
}
