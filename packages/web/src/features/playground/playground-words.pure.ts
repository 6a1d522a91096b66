// Texts of the playground: the statistics and the ending of a response, the state of the selected model.
import type { ModelState, ModelView } from '@muster/protocol'
import { formatCount, plural } from '../../format.ts'
import type { Answer } from './conversation.pure.ts'

/** A shorter time measures the network's buffering. */
const minSpanMs = 20
/** A wait worth showing. */
const noticeableMs = 500

type EndedAnswer = Extract<Answer, { readonly endedAt: number }>

/** `12 prompt + 8 completion tokens`, `41 tokens/s`, `first token 180 ms`, `1.2 s total`, `on gpu-1`; unknown values are omitted. */
export function figuresOf(answer: EndedAnswer, nodeName: string | null): string[] {
  const { usage, timing, endedAt } = answer
  const { submittedAt, sentAt, firstAt, routeMs } = timing
  const figures: string[] = []
  if (usage !== null) figures.push(`${formatCount(usage.promptTokens)} prompt + ${plural(usage.completionTokens, 'completion token')}`)
  const spanMs = firstAt === null ? 0 : endedAt - firstAt
  if (usage !== null && usage.completionTokens > 1 && spanMs >= minSpanMs)
    figures.push(`${formatCount(((usage.completionTokens - 1) / spanMs) * 1_000)} tokens/s`)
  if (firstAt !== null) figures.push(`first token ${formatMs(firstAt - sentAt - noticeable(routeMs))}`)
  const waitedMs = sentAt - submittedAt + noticeable(routeMs)
  if (firstAt !== null && waitedMs >= noticeableMs) figures.push(`waited ${formatMs(waitedMs)} for the model`)
  figures.push(`${formatMs(endedAt - submittedAt)} total`)
  if (nodeName !== null) figures.push(`on ${nodeName}`)
  return figures
}

const noticeable = (ms: number | null): number => (ms !== null && ms >= noticeableMs ? ms : 0)

/** `180 ms`, `1.2 s`, `75 s`. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`
}

/** How the response ended; null for a normal end. */
export function endingOf(answer: EndedAnswer): string | null {
  if (answer.state === 'stopped') return answer.text === '' ? 'Stopped before the first token.' : 'Stopped. The response is incomplete.'
  if (answer.state === 'interrupted')
    return `${answer.text === '' ? 'Interrupted before the first token' : 'Interrupted'}: ${answer.reason}.`.replace(/\.\.$/, '.')
  if (answer.state !== 'complete') return null
  if (answer.finish === 'length') return 'Token limit reached (max_tokens or context size).'
  return answer.finish === null || answer.finish === 'stop' ? null : `Finish reason: ${answer.finish}.`
}

export const stateWords: Readonly<Record<ModelState, string>> = {
  unloaded: 'not loaded',
  pending: 'finding a node',
  installing: 'installing backend',
  staging: 'downloading files',
  loading: 'loading into memory',
  ready: 'ready',
  failed: 'failed to load',
}

/** The named model; without a name, one that is ready, or the first. */
export function chooseModel(models: readonly ModelView[], named: string | undefined): ModelView | null {
  if (named !== undefined) return models.find(({ name }) => name === named) ?? null
  return models.find(({ state }) => state === 'ready') ?? models[0] ?? null
}

export function modelSentence(model: ModelView): string {
  switch (model.state) {
    case 'ready':
      return `${model.name} is ready: ${model.replicas_ready} of ${plural(Math.max(model.replicas_ready, model.replicas_desired), 'replica')}.`
    case 'unloaded':
      return `${model.name} is not loaded. The first message loads it.`
    case 'failed':
      return `${model.name} failed to load: ${model.failure?.message ?? 'unknown reason'}`
    default:
      return `${model.name} is starting: ${stateWords[model.state]}.`
  }
}
