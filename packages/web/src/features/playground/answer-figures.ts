// Pure: what is said under an answer.
import { formatCount, plural } from '../../format/amounts.ts'
import type { Answer } from './conversation.ts'

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
