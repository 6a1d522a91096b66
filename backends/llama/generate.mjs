// One generation from its prompt to its end: waits for a slot, fills it, gives it back, counts.
import { ApiError } from './api-error.mjs'

/** The engine keeps a place for the next token, and stops one before the end. */
const reservedTokens = 2
/** Between two such parts of a prompt, a disconnected client is noticed. */
const promptPartTokens = 256

/** The limit of tokens for the answer: the requested number, and at most what fits. */
export function roomFor(promptTokens, { contextSize }, wanted) {
  const room = contextSize - reservedTokens - promptTokens
  if (room >= 1) return Math.min(wanted ?? room, room)
  const message = `the prompt has ${promptTokens} tokens, but this model takes ${contextSize} for prompt and answer together`
  throw new ApiError(400, message, { code: 'context_length_exceeded', param: 'messages' })
}

/** `work` gets the sequence; what it generates is counted by the sequence itself. */
export async function generate({ engine, metrics }, { tokens, signal, onStart }, work) {
  const slot = await engine.slots.acquire(tokens, signal)
  const { sequence } = slot
  const before = sequence.tokenMeter.getState()
  const cachedTokens = Math.min(sequence.compareContextTokens(tokens).firstDifferentIndex, tokens.length - 1)
  const generated = () => sequence.tokenMeter.diff(before).usedOutputTokens
  try {
    onStart?.()
    await prefill(sequence, tokens, signal)
    const result = await work(sequence)
    return { ...result, cachedTokens, completionTokens: generated() }
  } catch (error) {
    // Its content is unknown now.
    if (!signal.aborted) await sequence.clearHistory()
    throw error
  } finally {
    metrics.generated(generated())
    engine.slots.release(slot)
  }
}

async function prefill(sequence, tokens, signal) {
  if (tokens.length <= promptPartTokens) return
  const all = tokens.slice(0, -1)
  await sequence.adaptStateToTokens(all, false)
  for (let at = sequence.nextTokenIndex; at < all.length; at += promptPartTokens) {
    signal.throwIfAborted()
    await sequence.evaluateWithoutGeneratingNewTokens(all.slice(at, at + promptPartTokens))
  }
}

export const finishOf = (stopReason) => (stopReason === 'maxTokens' ? 'length' : 'stop')

/** The first of several answers evaluates the prompt; the others may reuse it. */
export function usageOf(promptTokens, answers) {
  const completionTokens = answers.reduce((total, answer) => total + answer.completionTokens, 0)
  return {
    ...{ prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: promptTokens + completionTokens },
    prompt_tokens_details: { cached_tokens: answers[0]?.cachedTokens ?? 0 },
  }
}
