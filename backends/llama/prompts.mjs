// The input of /v1/completions and /v1/embeddings: a text, tokens, or a list of either.
import { invalid } from './api-error.mjs'

const most = 2048

export function promptsOf(given, { model, vocabularySize }, param) {
  const isTokens = (value) => Array.isArray(value) && value.length > 0 && value.every((token) => Number.isSafeInteger(token) && token >= 0)
  const prompts = typeof given === 'string' || isTokens(given) ? [given] : given
  if (!Array.isArray(prompts) || prompts.length === 0 || prompts.length > most)
    throw invalid(`${param} must be a text, a list of tokens, or a list of at most ${most} of them`, param)
  return prompts.map((prompt) => {
    if (typeof prompt === 'string') return { text: prompt, tokens: model.tokenize(prompt, true) }
    if (!isTokens(prompt)) throw invalid(`${param} must hold texts or lists of tokens`, param)
    if (prompt.some((token) => token >= vocabularySize)) throw invalid(`${param} has a token that this model does not know`, param)
    return { text: model.detokenize(prompt), tokens: [...prompt] }
  })
}
