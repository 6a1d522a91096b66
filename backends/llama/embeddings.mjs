// POST /v1/embeddings: vectors of unit length, like OpenAI's.
import { ApiError, invalid } from './api-error.mjs'
import { promptsOf } from './prompts.mjs'

export async function embed({ engine, name, metrics }, { body, signal }) {
  const { embedder, model, contextSize } = engine
  if (!embedder.isOffered) throw new ApiError(400, `embeddings are switched off for the model ${name}`, { code: 'unsupported' })
  const format = body.encoding_format ?? 'float'
  if (format !== 'float' && format !== 'base64') throw invalid('encoding_format must be float or base64', 'encoding_format')
  if ((body.dimensions ?? model.embeddingVectorSize) !== model.embeddingVectorSize)
    throw invalid(`this model's embeddings have ${model.embeddingVectorSize} dimensions, no other number`, 'dimensions')

  const prompts = promptsOf(body.input, engine, 'input')
  for (const { text, tokens } of prompts) {
    if (tokens.length === 0) throw invalid('input must not be empty', 'input')
    if (tokens.length <= contextSize - 2) continue
    const message = `the input ${JSON.stringify(text.slice(0, 40))}… has ${tokens.length} tokens, but this model takes ${contextSize}`
    throw new ApiError(400, message, { code: 'context_length_exceeded', param: 'input' })
  }
  const data = []
  for (const [index, { tokens }] of prompts.entries()) {
    signal.throwIfAborted()
    data.push({ object: 'embedding', index, embedding: encode(unit(await embedder.embed(tokens)), format) })
  }
  const total = prompts.reduce((sum, { tokens }) => sum + tokens.length, 0)
  metrics.embedded(prompts.length)
  return { object: 'list', data, model: name, usage: { prompt_tokens: total, total_tokens: total } }
}

/** As 32-bit numbers, so that both encodings agree. */
function unit(vector) {
  const length = Math.hypot(...vector) || 1
  return Float32Array.from(vector, (value) => value / length)
}

const encode = (vector, format) =>
  format === 'float' ? [...vector] : Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64')
