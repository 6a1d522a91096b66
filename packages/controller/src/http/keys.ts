// /api/keys: API keys.
import { newId, newSecret, sha256Hex } from '@muster/host'
import { keyRoutes as routes } from '@muster/protocol'
import type { PrincipalFinder } from '../auth/principal.ts'
import type { AccessStore } from '../store/access.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, notFound } from './http-error.ts'

export function keyEndpoints({ access, principals }: { access: AccessStore; principals: PrincipalFinder }): Endpoint[] {
  return [
    endpoint(routes.list, async () => ({ keys: await access.listKeys() })),
    endpoint(routes.create, async ({ body }) => {
      const id = newId()
      const key = body.secret_hash === undefined ? newSecret(`muster_${body.scope}`) : null
      const secretSha256 = key === null ? (body.secret_hash ?? '') : sha256Hex(key)
      const view = await access.insertKey({ id, name: body.name, scope: body.scope, secretSha256 })
      return new Answer(view.id === id ? 201 : 200, { ...view, key })
    }),
    endpoint(routes.remove, async ({ params }) => {
      const removed = await access.removeKey(params.id)
      if (removed === null) throw notFound(`key ${params.id} does not exist; GET /api/keys lists all keys`)
      if (!removed) throw new HttpError(409, 'last_admin_key', `key ${params.id} is the last admin key; make another one first`)
      principals.revoke((principal) => (principal.kind === 'key' ? principal.id : principal.key) === params.id)
    }),
  ]
}
