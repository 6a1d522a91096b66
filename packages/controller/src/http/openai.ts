// GET /v1/models: what can be asked, loaded or not. The rest of /v1 is served before this, by inference.ts; its routes
// are listed here so that the description of the API and wrong methods know them.
import { inferenceRoutes as routes } from '@muster/protocol'
import type { Inference } from '../inference/serve.ts'
import type { KnownModel } from '../routing/replica-table.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'

const viewOf = ({ name, createdAt }: KnownModel) => ({
  id: name,
  object: 'model' as const,
  created: Math.floor(Date.parse(createdAt) / 1000),
  owned_by: 'muster',
})

export function openAiEndpoints(inference: Inference): Endpoint[] {
  const servedBefore = async (): Promise<never> => {
    throw new HttpError(400, 'invalid', 'ask for this by its path alone, without the host')
  }
  return [
    endpoint(routes.models, async () => ({ object: 'list' as const, data: inference.models().map(viewOf) })),
    endpoint(routes.model, async ({ params }) => {
      const model = inference.find(params.id)
      if (model === undefined) throw new HttpError(404, 'model_not_found', `there is no model ${params.id}; GET /v1/models lists them`)
      return viewOf(model)
    }),
    endpoint(routes.chat, servedBefore),
    endpoint(routes.completions, servedBefore),
    endpoint(routes.embeddings, servedBefore),
  ]
}
