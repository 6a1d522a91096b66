// The error envelopes of /api (ours) and /v1 (OpenAI's).
import { z } from 'zod'

export const ApiError = z.object({
  error: z.object({ code: z.string(), message: z.string(), details: z.record(z.string(), z.unknown()).optional() }),
})
export type ApiError = z.infer<typeof ApiError>

export const OpenAiError = z.object({
  error: z.object({ message: z.string(), type: z.string(), param: z.string().nullable().optional(), code: z.string().nullable() }),
})
export type OpenAiError = z.infer<typeof OpenAiError>
