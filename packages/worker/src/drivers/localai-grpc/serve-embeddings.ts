// Serves embeddings and tokens with a LocalAI backend.
import { answer, type Exchange, readBody, refuse, translate } from './exchange.ts'
import { modelIdentityOf } from './load-options.pure.ts'
import type { EmbeddingResult, PredictOptions } from './messages.ts'
import { EmbeddingsRequest, TokenizeRequest } from './openai-request.ts'
import { embeddingsAnswer } from './openai-response.pure.ts'

export async function serveEmbeddings(exchange: Exchange): Promise<void> {
  const { spec, client } = exchange
  const request = await readBody(exchange, EmbeddingsRequest)
  if (request === null) return
  if (request.dimensions !== null && request.dimensions !== undefined) {
    return refuse(exchange, {
      status: 400,
      message: 'this backend has embeddings of one length; omit dimensions',
      param: 'dimensions',
    })
  }
  await translate(exchange, async (signal) => {
    const results: EmbeddingResult[] = []
    // One after the other: a backend computes one at a time, and a disconnect cancels the rest.
    for (const input of inputsOf(request.input)) {
      const result = await client.embedding({ ...input, ModelIdentity: modelIdentityOf(spec) }, { signal })
      if (result.layout === 'PER_TOKEN') {
        return refuse(exchange, { status: 501, message: `${spec.model} computes one embedding per token, not one per text` })
      }
      results.push(result)
    }
    answer(exchange, 200, embeddingsAnswer(spec.model, results, request.encoding_format ?? 'float'))
  })
}

export async function serveTokenize(exchange: Exchange): Promise<void> {
  const text = await readBody(exchange, TokenizeRequest)
  if (text === null) return
  await translate(exchange, async (signal) => {
    const { tokens } = await exchange.client.tokenize({ Prompt: text, ModelIdentity: modelIdentityOf(exchange.spec) }, { signal })
    answer(exchange, 200, { tokens })
  })
}

type Input = string | readonly number[]

function inputsOf(input: Input | readonly Input[]): PredictOptions[] {
  return isOne(input) ? [inputOf(input)] : input.map(inputOf)
}

const isOne = (input: Input | readonly Input[]): input is Input => typeof input === 'string' || typeof input[0] === 'number'

const inputOf = (input: Input): PredictOptions => (typeof input === 'string' ? { Embeddings: input } : { EmbeddingTokens: input })
