// LocalAI's routes about backends: thin layers over /api/backends.
import {
  backendRoutes,
  galleryRoutes,
  localAiBackendRoutes as routes,
  type OperationId,
  type OperationView,
  parseBackendReference,
  type ResponseOf,
  type Route,
} from '@muster/protocol'
import { type Call, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, toHttpError } from './http-error.ts'
import { galleryOf, installedBackendOf, knownBackendOf, offeredBackendOf, upgradesOf } from './localai.pure.ts'
import { detectedBackends } from './localai-import.pure.ts'
import { findJob, type LocalAiModelDeps } from './localai-models.ts'
import type { CallOwn } from './own-routes.ts'

export type LocalAiBackendDeps = Pick<LocalAiModelDeps, 'own' | 'baseUrlOf'>

export function localAiBackendEndpoints({ own, baseUrlOf }: LocalAiBackendDeps): Endpoint[] {
  const job = (accepted: { operation_id: OperationId } | OperationView, { request }: Call<Route>) => {
    const id = 'operation_id' in accepted ? accepted.operation_id : accepted.id
    return { id, status_url: `${baseUrlOf(request)}/backends/jobs/${id}` }
  }
  const upgradesFrom = async (call: Call<Route>, route: typeof backendRoutes.upgrades | typeof backendRoutes.check) =>
    upgradesOf((await own(route, call, route === backendRoutes.check ? { body: {} } : {})).upgrades)
  return [
    endpoint(routes.list, async (call) => {
      const [{ backends }, { upgrades }] = await Promise.all([own(backendRoutes.list, call), own(backendRoutes.upgrades, call)])
      return backends.map((backend) => installedBackendOf(backend, upgrades[backend.name]))
    }),
    endpoint(routes.available, async (call) => {
      const [{ backends }, { galleries }] = await Promise.all([own(backendRoutes.gallery, call), own(galleryRoutes.list, call)])
      return backends.map((backend) => offeredBackendOf(backend, galleries))
    }),
    endpoint(routes.galleries, async (call) => {
      const { galleries } = await own(galleryRoutes.list, call)
      return galleries.filter(({ kind }) => kind === 'backend').map(galleryOf)
    }),
    endpoint(routes.known, async (call) => {
      const { backends } = await own(backendRoutes.gallery, call)
      return backends.map((backend) => knownBackendOf(backend, detectedBackends.has(backend.name)))
    }),
    endpoint(routes.apply, async (call) => job(await install(call, call.body, own), call)),
    endpoint(routes.remove, async (call) => {
      const query = { node: undefined, force: false, dry_run: false }
      return job(await own(backendRoutes.remove, call, { params: call.params, query }), call)
    }),
    endpoint(routes.upgrade, async (call) =>
      job(await own(backendRoutes.upgrade, call, { params: call.params, body: { strategy: 'rolling' } }), call),
    ),
    endpoint(routes.job, async (call) => await findJob(call.params.uuid, call, own)),
    endpoint(routes.upgrades, (call) => upgradesFrom(call, backendRoutes.upgrades)),
    endpoint(routes.check, (call) => upgradesFrom(call, backendRoutes.check)),
  ]
}

type Accepted = ResponseOf<typeof backendRoutes.install>

/** `force` repairs: an upgrade verifies every file of a backend that is there. */
async function install(
  call: Call<Route>,
  { id, force = false }: { id: string; force?: boolean | undefined },
  own: CallOwn,
): Promise<Accepted> {
  const body = backendRoutes.install.body?.safeParse({ backend: id })
  if (body?.success !== true)
    throw new HttpError(400, 'invalid', `"id": ${body?.error.issues[0]?.message ?? 'names a backend'}; GET /backends/available lists all`)
  if (force) {
    try {
      const name = parseBackendReference(id).backend
      return await own(backendRoutes.upgrade, call, { params: { name }, body: { strategy: 'rolling' } })
    } catch (error) {
      if (toHttpError(error).code !== 'not_installed') throw error
    }
  }
  return await own(backendRoutes.install, call, { body: body.data })
}
