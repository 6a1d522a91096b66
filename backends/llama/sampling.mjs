// How the next token is chosen: OpenAI's fields, and those that llama.cpp has beside them, in the engine's words.
import { randomInt } from 'node:crypto'
import { invalid } from './api-error.mjs'
import { isObject, numberOf } from './fields.mjs'

/** `choice`: which of the `n` answers; each has its own seed, so that they differ and can be had again. */
export function samplingOf(body, engine, choice = 0) {
  const seed = numberOf(body, 'seed', { min: -(2 ** 53), max: 2 ** 53, isInteger: true }) ?? randomInt(2 ** 32)
  const given = {
    temperature: numberOf(body, 'temperature', { min: 0, max: 2 }) ?? 1,
    topP: numberOf(body, 'top_p', { min: 0, max: 1 }),
    topK: numberOf(body, 'top_k', { min: 0, isInteger: true }),
    minP: numberOf(body, 'min_p', { min: 0, max: 1 }),
    repeatPenalty: penaltyOf(body),
    tokenBias: biasOf(body, engine),
  }
  const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  return { ...known, seed: (((seed + choice) % 2 ** 32) + 2 ** 32) % 2 ** 32 }
}

/** The engine penalizes repetition by default; OpenAI's clients expect that it does not. */
function penaltyOf(body) {
  const frequencyPenalty = numberOf(body, 'frequency_penalty', { min: -2, max: 2 }) ?? 0
  const presencePenalty = numberOf(body, 'presence_penalty', { min: -2, max: 2 }) ?? 0
  const penalty = numberOf(body, 'repeat_penalty', { min: 0.1, max: 10 }) ?? 1
  if (frequencyPenalty === 0 && presencePenalty === 0 && penalty === 1) return false
  const lastTokens = numberOf(body, 'repeat_last_n', { min: 0, max: 65_536, isInteger: true }) ?? 256
  return { lastTokens, penalty, frequencyPenalty, presencePenalty, penalizeNewLine: true }
}

function biasOf(body, { model, vocabularySize, TokenBias }) {
  const wanted = Object.entries(body.logit_bias ?? {})
  if (!isObject(body.logit_bias ?? {}) || wanted.length > 1024)
    throw invalid('logit_bias must be an object of at most 1024 tokens', 'logit_bias')
  if (wanted.length === 0) return undefined
  const bias = TokenBias.for(model)
  for (const [token, logit] of wanted) {
    if (!/^\d{1,9}$/.test(token) || Number(token) >= vocabularySize || !Number.isFinite(logit) || Math.abs(logit) > 100)
      throw invalid('logit_bias must name tokens that this model has, by their number, each with a bias from -100 to 100', 'logit_bias')
    bias.set(Number(token), logit === -100 ? 'never' : { logit })
  }
  return bias
}
