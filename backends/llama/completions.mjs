// POST /v1/completions: continues the text without the chat template.
import { invalid } from './api-error.mjs'
import { flagOf, numberOf, stopsOf } from './fields.mjs'
import { finishOf, generate, roomFor, usageOf } from './generate.mjs'
import { promptsOf } from './prompts.mjs'
import { grammarOf } from './json-output.mjs'
import { samplingOf } from './sampling.mjs'
import { newAnswer, startStream } from './stream.mjs'

/** OpenAI's default. */
const defaultMaxTokens = 16

export async function complete(server, { body, response, signal }) {
  for (const field of ['logprobs', 'suffix', 'best_of']) {
    if ((body[field] ?? null) !== null && body[field] !== 0 && body[field] !== '')
      throw invalid(`this backend does not take ${field}`, field)
  }
  const { engine, name } = server
  const jobs = await jobsOf(body, engine)
  const about = { ...newAnswer('cmpl', name), object: 'text_completion' }
  const stream = flagOf(body, 'stream') ? startStream(response, { about, body }) : null

  const answers = await Promise.all(
    jobs.map((job, index) => answer(server, { job, signal, writer: stream && createChunkWriter(stream, index) })),
  )
  const usage = usageOf(promptTokensOf(jobs), answers)
  if (stream !== null) return stream.end(usage)
  const choices = answers.map(({ text, finish }, index) => ({ index, text, logprobs: null, finish_reason: finish }))
  return { ...about, choices, usage }
}

/** One per prompt and answer, in OpenAI's order. */
async function jobsOf(body, engine) {
  const { tokens: special } = engine.model
  const beginning = special.shouldPrependBosToken && special.bos !== null ? [special.bos] : []
  const wanted = numberOf(body, 'max_tokens', { min: 1, isInteger: true }) ?? defaultMaxTokens
  const n = numberOf(body, 'n', { min: 1, max: 16, isInteger: true }) ?? 1
  const shared = { stops: stopsOf(body), grammar: await grammarOf(body, engine), isEchoed: flagOf(body, 'echo') }
  return promptsOf(body.prompt, engine, 'prompt').flatMap(({ text, tokens: given }) => {
    // The engine adds the BOS token.
    const input = given[0] === beginning[0] && beginning.length > 0 ? given.slice(1) : given
    const tokens = [...beginning, ...input]
    if (tokens.length === 0) throw invalid('prompt must not be empty: this model has no token to begin with', 'prompt')
    const maxTokens = roomFor(tokens.length, engine, wanted)
    return Array.from({ length: n }, (_, choice) => ({
      ...shared,
      ...{ text, tokens, input, maxTokens, isFirst: choice === 0, sampling: samplingOf(body, engine, choice) },
    }))
  })
}

const promptTokensOf = (jobs) => jobs.reduce((total, { isFirst, tokens }) => total + (isFirst ? tokens.length : 0), 0)

async function answer(server, { job, signal, writer }) {
  const { engine } = server
  return await generate(server, { tokens: job.tokens, signal }, async (sequence) => {
    const completion = new engine.LlamaCompletion({ contextSequence: sequence })
    try {
      let text = job.isEchoed ? job.text : ''
      if (text !== '') writer?.text(text)
      const { metadata } = await completion.generateCompletionWithMeta(job.input, {
        ...job.sampling,
        ...{ signal, maxTokens: job.maxTokens, customStopTriggers: job.stops, contextShiftSize: 1 },
        ...(job.grammar === null ? {} : { grammar: job.grammar }),
        onTextChunk(chunk) {
          text += chunk
          if (chunk !== '') writer?.text(chunk)
        },
      })
      const finish = finishOf(metadata.stopReason)
      writer?.end(finish)
      return { text, finish }
    } finally {
      completion.dispose({ disposeSequence: false })
    }
  })
}

function createChunkWriter(stream, index) {
  const send = (text, finish) => stream.send([{ index, text, logprobs: null, finish_reason: finish }])
  return { text: (text) => send(text, null), end: (finish) => send('', finish) }
}
