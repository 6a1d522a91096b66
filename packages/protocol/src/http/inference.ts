// /v1: the OpenAI API, and its statistics. Bodies pass through unchanged: the controller reads only the fields that route a
// request.
import { z } from 'zod'
import { ModelName } from '../ids.ts'
import { route } from './define.ts'

/** The fields of a request's body that the controller reads; all others are for the backend. */
export const InferenceRequest = z.looseObject({ model: z.string(), stream: z.boolean().nullish() })

const OpenAiModel = z.object({ id: z.string(), object: z.literal('model'), created: z.number(), owned_by: z.string() })

const inference = (path: string, summary: string) => route({ method: 'POST', path, access: 'inference', summary, body: InferenceRequest })

export const inferenceRoutes = {
  models: route({
    method: 'GET',
    path: '/v1/models',
    access: 'inference',
    summary: 'List models',
    response: z.object({ object: z.literal('list'), data: z.array(OpenAiModel) }),
  }),
  model: route({
    method: 'GET',
    path: '/v1/models/:id',
    access: 'inference',
    summary: 'Get a model',
    params: z.object({ id: ModelName }),
    response: OpenAiModel,
  }),
  chat: inference('/v1/chat/completions', 'Chat, whole or streamed'),
  completions: inference('/v1/completions', 'Text completion, whole or streamed'),
  embeddings: inference('/v1/embeddings', 'Embeddings, as numbers or base64'),
}

/**
 * Ten seconds of one model on one node. `requests` counts all of them; those in none of `errors`, `client_errors` and `overloaded`
 * were answered well. `in_flight` is the maximum.
 */
export const StatsBucket = z.object({
  at: z.string(),
  model: z.string(),
  node_id: z.string(),
  requests: z.number(),
  errors: z.number(),
  /** The client's request was wrong (4xx), or the client left. */
  client_errors: z.number(),
  /** 429 or 503: the same request may succeed later. */
  overloaded: z.number(),
  prompt_tokens: z.number(),
  completion_tokens: z.number(),
  in_flight: z.number(),
  /** Sum over the requests, for averages. */
  duration_ms: z.number(),
})
export type StatsBucket = z.infer<typeof StatsBucket>

export const statsRoutes = {
  stats: route({
    method: 'GET',
    path: '/api/stats',
    access: 'read',
    summary: 'Requests, errors and tokens in buckets of 10 s, per model and node; the last hour by default',
    query: z.object({ since: z.iso.datetime({ offset: true }).optional() }),
    response: z.object({ bucket_seconds: z.literal(10), buckets: z.array(StatsBucket) }),
  }),
}
