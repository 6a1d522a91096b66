// What a new replica is asked before it gets requests while others serve, and what its answer means. Pure.
import { unreachable } from '@muster/protocol'
import { z } from 'zod'

export interface Question {
  readonly path: string
  readonly body: object
  /** Its model's configuration says that it can do this; otherwise it is only tried. */
  readonly isKnown: boolean
}

export type Answer =
  | Readonly<{ is: 'answer'; status: number; body: string }>
  /** Nothing came for so long. */
  | Readonly<{ is: 'silence'; afterMs: number }>
  /** It was not the replica that answered, or the answer broke off: that may be the way there. */
  | Readonly<{ is: 'no_answer'; why: string }>

export type Verdict =
  | Readonly<{ is: 'passed' }>
  /** It does not serve that; the next question is asked. */
  | Readonly<{ is: 'not_served' }>
  | Readonly<{ is: 'unclear'; why: string }>
  | Readonly<{ is: 'failed'; cause: string }>

/** Enough for an answer, and little enough for an engine without a GPU. */
const maxTokens = 4

const kinds = [
  {
    path: '/v1/chat/completions',
    usecase: 'chat',
    ask: { messages: [{ role: 'user', content: 'Say OK.' }], max_tokens: maxTokens },
  },
  { path: '/v1/completions', usecase: 'completion', ask: { prompt: 'One, two,', max_tokens: maxTokens } },
  { path: '/v1/embeddings', usecase: 'embedding', ask: { input: 'OK' } },
] as const

/** In the order in which they are asked; none when the model is for something else. */
export function questionsFor({ model, usecases }: { readonly model: string; readonly usecases: readonly string[] }): Question[] {
  const isSaid = (usecase: string): boolean => usecases.some((each) => each.toLowerCase().startsWith(usecase))
  return kinds
    .filter(({ usecase }) => usecases.length === 0 || isSaid(usecase))
    .map(({ path, usecase, ask }) => ({ path, body: { model, ...ask }, isKnown: isSaid(usecase) }))
}

export function judge({ path, isKnown }: Question, answer: Answer): Verdict {
  switch (answer.is) {
    case 'silence':
      return { is: 'failed', cause: `${path} was not answered within ${Math.round(answer.afterMs / 1000)} s` }
    case 'no_answer':
      return { is: 'unclear', why: answer.why }
    case 'answer':
      return judgeStatus({ path, isKnown }, answer)
    default:
      return unreachable(answer)
  }
}

const Completion = z.object({ choices: z.array(z.object({})).min(1) })
const Embeddings = z.object({ data: z.array(z.object({ embedding: z.union([z.array(z.number()).min(1), z.string().min(1)]) })).min(1) })
const UnknownModel = z.object({ error: z.object({ code: z.literal('model_not_found') }) })
const Refusal = z.object({ error: z.union([z.string(), z.object({ message: z.string() })]) })

function judgeStatus({ path, isKnown }: Pick<Question, 'path' | 'isKnown'>, { status, body }: { status: number; body: string }): Verdict {
  const isAboutRoute = status === 404 || status === 405 || status === 501
  if (isAboutRoute && !isModelUnknown(body)) return { is: 'not_served' }
  // What nobody said it can do may be refused in any way; what it is for may not.
  if (status >= 400 && status < 500 && !isKnown && !isAboutRoute) return { is: 'not_served' }
  if (status !== 200) return { is: 'failed', cause: `${path} answered ${status}: ${wordsOf(body)}` }
  const json = parsed(body)
  if (Completion.safeParse(json).success || Embeddings.safeParse(json).success) return { is: 'passed' }
  return { is: 'failed', cause: `${path} answered something else than was asked for: ${excerpt(body)}` }
}

/** That it has the route and not the model is another thing. */
const isModelUnknown = (body: string): boolean => UnknownModel.safeParse(parsed(body)).success

function wordsOf(body: string): string {
  const refusal = Refusal.safeParse(parsed(body))
  if (!refusal.success) return excerpt(body)
  const { error } = refusal.data
  return excerpt(typeof error === 'string' ? error : error.message)
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

const mostWords = 500
/** For a person: one line, no control characters. */
function excerpt(text: string): string {
  const line = text.replaceAll(/[\p{C}\s]+/gu, ' ').trim()
  if (line === '') return 'nothing'
  return line.length > mostWords ? `${line.slice(0, mostWords)}…` : line
}
