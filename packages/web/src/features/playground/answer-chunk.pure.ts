// Parses one event of a streamed response.
import { z } from 'zod'
import { parseJson } from '../../api/client.ts'
import type { Delta } from './conversation.pure.ts'

const Counts = z.looseObject({ prompt_tokens: z.number(), completion_tokens: z.number() })
const Content = z.looseObject({ content: z.string().nullish() })
const Chunk = z.looseObject({
  choices: z
    .array(z.looseObject({ delta: Content.nullish(), message: Content.nullish(), finish_reason: z.string().nullish() }))
    .nullish()
    .catch(null),
  usage: Counts.nullish().catch(null),
  error: z.union([z.string(), z.looseObject({ message: z.string() })]).nullish(),
})

export type ReadChunk =
  | { readonly kind: 'delta'; readonly delta: Delta }
  | { readonly kind: 'done' }
  | { readonly kind: 'error'; readonly message: string }

/** Also parses a complete response, from a backend that does not stream. */
export function readChunk(data: string): ReadChunk {
  if (data.trim() === '[DONE]') return { kind: 'done' }
  const parsed = Chunk.safeParse(parseJson(data))
  if (!parsed.success) return { kind: 'error', message: `invalid response from the backend: ${data.slice(0, 200)}` }
  const { choices, usage, error } = parsed.data
  if (error !== undefined && error !== null) return { kind: 'error', message: typeof error === 'string' ? error : error.message }
  const first = choices?.[0]
  return {
    kind: 'delta',
    delta: {
      text: first?.delta?.content ?? first?.message?.content ?? '',
      finish: first?.finish_reason ?? null,
      usage: usage ? { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens } : null,
    },
  }
}

/** `route;dur=3.1, backend;dur=40` → the time until a replica was available. */
export function routeMsOf(serverTiming: string | null): number | null {
  const found = /(?:^|,)\s*route;dur=(\d+(?:\.\d+)?)/.exec(serverTiming ?? '')?.[1]
  return found === undefined ? null : Number(found)
}
