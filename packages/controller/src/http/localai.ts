// LocalAI's routes, on top of the endpoints of Muster's own API.
import { type Clock, newId } from '@muster/host'
import { type ModelConfig, OperationId, type Route } from '@muster/protocol'
import { principalName } from '../auth/principal.ts'
import { createConfigInstall, type ModelSubmitDeps } from '../models/submit.ts'
import type { Call, Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'
import { localAiBackendEndpoints } from './localai-backends.ts'
import { localAiModelEndpoints } from './localai-models.ts'
import { localAiSystemEndpoints } from './localai-system.ts'
import { createOwnCalls } from './own-routes.ts'

export interface LocalAiDeps extends Pick<ModelSubmitDeps, 'store' | 'wake'> {
  readonly endpoints: readonly Endpoint[]
  /** Empty: not set. */
  readonly publicUrl: string
  readonly clock: Clock
}

export function localAiEndpoints({ endpoints, publicUrl, clock, ...models }: LocalAiDeps): Endpoint[] {
  const own = createOwnCalls(endpoints)
  const install = createConfigInstall(models)
  const installConfig = async (config: ModelConfig, { principal }: Call<Route>): Promise<OperationId> => {
    const id = OperationId.parse(newId('op'))
    if ((await install(config, { id, requestedBy: principalName(principal) })) === 'differs')
      throw new HttpError(409, 'conflict', `there is a model ${config.name} already, with another configuration; set preferences.name`)
    return id
  }
  const baseUrlOf = ({ url }: Request): string => (publicUrl === '' ? new URL(url).origin : publicUrl.replace(/\/+$/, ''))
  return [
    ...localAiModelEndpoints({ own, installConfig, baseUrlOf }),
    ...localAiBackendEndpoints({ own, baseUrlOf }),
    ...localAiSystemEndpoints({ own, clock }),
  ]
}
