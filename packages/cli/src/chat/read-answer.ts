// An answer as it comes: the pieces of its text, and its end. An answer that is cut off never looks like a whole one:
// it throws, whatever cut it.
import { createSseParser, type ServerEvent } from '@muster/protocol'
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { CliError } from '../cli-error.ts'
import { parseJson } from '../client/explain-failure.ts'
import { readText } from '../client/http-request.ts'
import { plainText } from '../output/plain-text.ts'

const Usage = z.object({ prompt_tokens: z.number(), completion_tokens: z.number() })
export type Usage = z.infer<typeof Usage>

const finish = { finish_reason: z.string().nullish() }
const Content = z.object({ content: z.string().nullish() })
const Chunk = z.object({
  choices: z.array(z.object({ delta: Content.nullish(), message: Content.nullish(), ...finish })).default([]),
  usage: Usage.nullish().catch(null),
})
const ErrorChunk = z.object({ error: z.object({ message: z.string() }) })

export type AnswerPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'end'; readonly finishReason: string | null; readonly usage: Usage | null }

export async function* readAnswer(response: IncomingMessage): AsyncGenerator<AnswerPart, void, void> {
  let finishReason: string | null = null
  let usage: Usage | null = null
  for await (const event of eventsOf(response)) {
    if (event.data === '[DONE]') return yield { kind: 'end', finishReason, usage }
    const chunk = parseChunk(event)
    const [choice] = chunk.choices
    usage = chunk.usage ?? usage
    finishReason = choice?.finish_reason ?? finishReason
    const text = (choice?.delta ?? choice?.message)?.content ?? ''
    if (text !== '') yield { kind: 'text', text }
  }
  throw cut('it ended without an end')
}

/** A backend that knows no streams answers as a whole: one piece, and the end. */
async function* eventsOf(response: IncomingMessage): AsyncGenerator<ServerEvent, void, void> {
  response.setEncoding('utf8')
  try {
    if (response.headers['content-type']?.startsWith('application/json') === true) {
      for (const data of [await readText(response), '[DONE]']) yield { type: 'message', data, lastEventId: '' }
      return
    }
    const parser = createSseParser('')
    for await (const chunk of response) yield* parser.push(String(chunk))
  } catch (error) {
    throw cut(error instanceof Error ? error.message : String(error), error)
  } finally {
    response.destroy()
  }
}

function parseChunk({ type, data }: ServerEvent): z.infer<typeof Chunk> {
  const raw = parseJson(data)
  const failed = ErrorChunk.safeParse(raw)
  if (failed.success) throw cut(failed.data.error.message)
  const parsed = Chunk.safeParse(raw)
  if (!parsed.success || type === 'error') throw cut(`something else came instead: ${data.slice(0, 200)}`)
  return parsed.data
}

const cut = (reason: string, cause?: unknown): CliError => new CliError(`the answer was cut off: ${plainText(reason)}`, { cause })
