// Check questions for a new replica, and the verdict on its answers. Pure.
import { unreachable } from '@muster/protocol'
import { z } from 'zod'

export interface Question {
  readonly path: string
  readonly body: object
  /** The model's configuration lists this use; otherwise it is only tried. */
  readonly isKnown: boolean
}

export type Answer =
  | Readonly<{ is: 'answer'; status: number; body: string }>
  /** No bytes arrived for this long. */
  | Readonly<{ is: 'silence'; afterMs: number }>
  /** The answer broke off or came from another process: the network may be the cause. */
  | Readonly<{ is: 'no_answer'; why: string }>

export type Verdict =
  | Readonly<{ is: 'passed' }>
  /** The replica does not serve this path; the next question follows. */
  | Readonly<{ is: 'not_served' }>
  | Readonly<{ is: 'unclear'; why: string }>
  | Readonly<{ is: 'failed'; cause: string }>

/** Enough for an answer, and few enough for a backend without a GPU. */
const maxTokens = 4

const kinds = [
  {
    path: '/v1/chat/completions',
    usecase: 'chat',
    fields: { messages: [{ role: 'user', content: 'Say OK.' }], max_tokens: maxTokens },
  },
  { path: '/v1/completions', usecase: 'completion', fields: { prompt: 'One, two,', max_tokens: maxTokens } },
  { path: '/v1/embeddings', usecase: 'embedding', fields: { input: 'OK' } },
] as const

/** The questions in order; none when the model is for other uses. */
export function questionsFor({ model, usecases }: { readonly model: string; readonly usecases: readonly string[] }): Question[] {
  const isListed = (usecase: string): boolean => usecases.some((each) => each.toLowerCase().startsWith(usecase))
  return kinds
    .filter(({ usecase }) => usecases.length === 0 || isListed(usecase))
    .map(({ path, usecase, fields }) => ({ path, body: { model, ...fields }, isKnown: isListed(usecase) }))
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
  // A use that the configuration does not list may be refused with any 4xx.
  if (status >= 400 && status < 500 && !isKnown && !isAboutRoute) return { is: 'not_served' }
  if (status !== 200) return { is: 'failed', cause: `${path} answered ${status}: ${messageOf(body)}` }
  const json = parsed(body)
  if (Completion.safeParse(json).success || Embeddings.safeParse(json).success) return { is: 'passed' }
  return { is: 'failed', cause: `${path} answered unexpectedly: ${excerpt(body)}` }
}

/** The replica has the route but does not know the model. */
const isModelUnknown = (body: string): boolean => UnknownModel.safeParse(parsed(body)).success

function messageOf(body: string): string {
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

const maxExcerpt = 500
/** One line, no control characters. */
function excerpt(text: string): string {
  const line = text.replaceAll(/[\p{C}\s]+/gu, ' ').trim()
  if (line === '') return 'nothing'
  return line.length > maxExcerpt ? `${line.slice(0, maxExcerpt)}…` : line
}
