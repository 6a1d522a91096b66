// POST /v1/chat/completions. Every request holds the whole conversation; only the evaluated tokens of a slot are kept.
import { invalid } from './api-error.mjs'
import { flagOf, numberOf, stopsOf } from './fields.mjs'
import { finishOf, generate, roomFor, usageOf } from './generate.mjs'
import { historyOf } from './history.mjs'
import { grammarOf } from './json-output.mjs'
import { samplingOf } from './sampling.mjs'
import { newAnswer, startStream } from './stream.mjs'
import { forcedCall, parseForced, toolCall, toolsOf } from './tools.mjs'

export async function chat(server, { body, response, signal }) {
  if (flagOf(body, 'logprobs')) throw invalid('this backend does not support logprobs', 'logprobs')
  const { engine, name } = server
  const plan = await planOf(body, engine)
  const about = newAnswer('chatcmpl', name)
  const stream = flagOf(body, 'stream') ? startStream(response, { about: { ...about, object: 'chat.completion.chunk' }, body }) : null

  const answers = await Promise.all(
    Array.from({ length: plan.n }, (_, index) =>
      answer(server, { plan, sampling: samplingOf(body, engine, index), signal, writer: stream && createChunkWriter(stream, index, plan) }),
    ),
  )
  const usage = usageOf(plan.tokens.length, answers)
  if (stream !== null) return stream.end(usage)
  return { ...about, object: 'chat.completion', choices: answers.map(choiceOf), usage }
}

/** Validates the whole request before anything is sent or generated. */
async function planOf(body, engine) {
  const tools = toolsOf(body)
  const forced = tools.forced === undefined ? null : await forcedCall(tools.forced, engine)
  const grammar = forced?.grammar ?? (await grammarOf(body, engine))
  if (grammar !== null && tools.functions !== undefined)
    throw invalid('response_format and tools cannot be combined; set tool_choice to none or required', 'response_format')
  const history = forced === null ? historyOf(body.messages) : [forced.instruction, ...historyOf(body.messages)]
  const { contextText } = engine.chatWrapper.generateContextState({ chatHistory: history, availableFunctions: tools.functions })
  const tokens = contextText.tokenize(engine.model.tokenizer)
  const limit =
    numberOf(body, 'max_completion_tokens', { min: 1, isInteger: true }) ?? numberOf(body, 'max_tokens', { min: 1, isInteger: true })
  return {
    n: numberOf(body, 'n', { min: 1, max: 16, isInteger: true }) ?? 1,
    ...{ tokens, history, grammar, isForced: forced !== null, functions: tools.functions },
    maxTokens: roomFor(tokens.length, engine, limit),
    stops: stopsOf(body),
    maxCalls: body.parallel_tool_calls === false ? 1 : undefined,
  }
}

async function answer(server, { plan, sampling, signal, writer }) {
  const { engine } = server
  return await generate(server, { tokens: plan.tokens, signal, onStart: writer?.start }, async (sequence) => {
    const session = new engine.LlamaChat({ contextSequence: sequence, chatWrapper: engine.chatWrapper })
    try {
      const generated = { content: '', reasoning: '' }
      const made = await session.generateResponse(plan.history, {
        ...sampling,
        ...{ signal, maxTokens: plan.maxTokens, customStopTriggers: plan.stops, contextShift: { size: 1 } },
        ...(plan.grammar === null ? {} : { grammar: plan.grammar }),
        ...(plan.functions === undefined ? {} : { functions: plan.functions, maxParallelFunctionCalls: plan.maxCalls }),
        onResponseChunk: ({ type, text }) => {
          const kind = type === 'segment' ? 'reasoning' : 'content'
          generated[kind] += text
          if (text !== '') writer?.[kind](text)
        },
      })
      const result = resultOf(made, { plan, generated })
      writer?.end(result)
      return result
    } finally {
      session.dispose({ disposeSequence: false })
    }
  })
}

function resultOf({ functionCalls, metadata }, { plan, generated }) {
  const forced = plan.isForced ? parseForced(generated.content) : null
  const calls = forced === null ? (functionCalls ?? []).map(({ functionName, params }) => toolCall(functionName, params)) : [forced]
  const finish = calls.length > 0 ? 'tool_calls' : finishOf(metadata.stopReason)
  return { content: plan.isForced ? '' : generated.content, reasoning: generated.reasoning, calls, finish }
}

function choiceOf({ content, reasoning, calls, finish }, index) {
  const message = {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
  return { index, message, logprobs: null, finish_reason: finish }
}

function createChunkWriter(stream, index, { isForced }) {
  const send = (delta, finish = null) => stream.send([{ index, delta, logprobs: null, finish_reason: finish }])
  return {
    start: () => send({ role: 'assistant', content: '' }),
    // A forced call is sent as one call, when it is complete.
    content: (content) => !isForced && send({ content }),
    reasoning: (text) => send({ reasoning_content: text }),
    end({ calls, finish }) {
      if (calls.length > 0) send({ tool_calls: calls.map((call, at) => ({ index: at, ...call })) })
      send({}, finish)
    },
  }
}
