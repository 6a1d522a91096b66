// Pure: how much was said, and how fast. What the backend did not count is not guessed.
import type { Usage } from './read-answer.ts'

export interface AnswerTimes {
  readonly usage: Usage | null
  readonly startedAt: number
  readonly firstAt: number
  readonly endedAt: number
}

/** In less, what was written came in one piece, and says nothing of how fast it was written. */
const leastWritingMs = 20

const secondsText = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

export function statsText({ usage, startedAt, firstAt, endedAt }: AnswerTimes): string {
  const times = `${secondsText(endedAt - startedAt)}, the first word after ${secondsText(firstAt - startedAt)}`
  if (usage === null) return `${times}; the backend did not count the tokens`
  const { prompt_tokens: read, completion_tokens: written } = usage
  // The first one came with the reading of the prompt: the others say how fast it writes.
  const rate = written > 1 && endedAt - firstAt >= leastWritingMs ? `, ${(((written - 1) / (endedAt - firstAt)) * 1000).toFixed(1)} tokens/s` : ''
  return `${read} tokens read, ${written} written in ${times}${rate}`
}
