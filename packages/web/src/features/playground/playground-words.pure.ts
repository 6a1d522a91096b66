// Pure: what is said under an answer.
import type { ModelState, ModelView } from '@muster/protocol'
import { formatCount, plural } from '../../format.ts'
import type { Answer } from './conversation.pure.ts'

/** Below that, what was measured is the network's buffering. */
const leastSpanMs = 20
/** A wait that somebody notices. */
const noticedMs = 500

type Spoken = Extract<Answer, { readonly endedAt: number }>

/** `12 + 8 tokens · 41 tokens/s · first token 180 ms · 1.2 s · gpu-1`: what is not known is left out. */
export function figuresOf(answer: Spoken, nodeName: string | null): string[] {
  const { usage, timing, endedAt } = answer
  const { askedAt, sentAt, firstAt, routeMs } = timing
  const figures: string[] = []
  if (usage !== null) figures.push(`${formatCount(usage.promptTokens)} prompt + ${plural(usage.completionTokens, 'completion token')}`)
  const spanMs = firstAt === null ? 0 : endedAt - firstAt
  if (usage !== null && usage.completionTokens > 1 && spanMs >= leastSpanMs)
    figures.push(`${formatCount(((usage.completionTokens - 1) / spanMs) * 1_000)} tokens/s`)
  if (firstAt !== null) figures.push(`first token ${formatMs(firstAt - sentAt - noticed(routeMs))}`)
  const waitedMs = sentAt - askedAt + noticed(routeMs)
  if (firstAt !== null && waitedMs >= noticedMs) figures.push(`waited ${formatMs(waitedMs)} for the model`)
  figures.push(`${formatMs(endedAt - askedAt)} in all`)
  if (nodeName !== null) figures.push(`on ${nodeName}`)
  return figures
}

const noticed = (ms: number | null): number => (ms !== null && ms >= noticedMs ? ms : 0)

/** `180 ms`, `1.2 s`, `75 s`. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`
}

/** How it ended, where that is not simply the end. */
export function endingOf(answer: Spoken): string | null {
  if (answer.state === 'stopped') return answer.text === '' ? 'Stopped before the first word.' : 'Stopped. This is not the whole answer.'
  if (answer.state === 'cut')
    return `${answer.text === '' ? 'Cut before the first word' : 'Cut off here'}: ${answer.why}.`.replace(/\.\.$/, '.')
  if (answer.state !== 'complete') return null
  if (answer.finish === 'length') return 'Ended at the limit of tokens (max_tokens, or what the context holds).'
  return answer.finish === null || answer.finish === 'stop' ? null : `Ended: ${answer.finish}.`
}

export const stateWords: Readonly<Record<ModelState, string>> = {
  unloaded: 'not loaded',
  pending: 'finding a node',
  installing: 'installing its backend',
  staging: 'fetching its files',
  loading: 'loading into memory',
  ready: 'ready',
  failed: 'failed to load',
}

/** The one that was named; else one that is up, else the first. */
export function chooseModel(models: readonly ModelView[], named: string | undefined): ModelView | null {
  if (named !== undefined) return models.find(({ name }) => name === named) ?? null
  return models.find(({ state }) => state === 'ready') ?? models[0] ?? null
}

/** One true sentence. */
export function modelSentence(model: ModelView): string {
  switch (model.state) {
    case 'ready':
      return `${model.name} is ready: ${model.replicas_ready} of ${plural(Math.max(model.replicas_ready, model.replicas_desired), 'replica')}.`
    case 'unloaded':
      return `${model.name} is not loaded. The first question loads it.`
    case 'failed':
      return `${model.name} failed to load: ${model.failure?.message ?? 'no reason is known'}`
    default:
      return `${model.name} is on its way: ${stateWords[model.state]}.`
  }
}
