import { describe, expect, it } from 'vitest'
import { ChatRequest, CompletionRequest, Sampling } from './openai-request.ts'
import { chatOptions, completionOptions, type TemplatedChat } from './predict-options.pure.ts'

const messages = [{ role: 'user', content: 'hi' }]
type Model = Parameters<typeof chatOptions>[1]
const modelOf = (parameters: object, more: Partial<Model> = {}): Model => ({
  isLlama: true,
  parameters: Sampling.parse(parameters),
  renderChat: null,
  ...more,
})
const chat = (more: object, parameters: object = {}, model: Partial<Model> = {}) => {
  const made = chatOptions(ChatRequest.parse({ messages, ...more }), modelOf(parameters, model))
  return 'refused' in made ? made : made.options
}
const complete = (more: object, renderCompletion: ((text: string) => string) | null = null) =>
  completionOptions(CompletionRequest.parse({ prompt: 'p', ...more }), { ...modelOf({}), renderCompletion })

describe('a chat', () => {
  it('is left to the template of the backend', () => {
    expect(chat({})).toMatchObject({
      UseTokenizerTemplate: true,
      Messages: [{ role: 'user', content: 'hi' }],
      Seed: -1,
      TopK: 40,
      Tokens: 0,
      TypicalP: 1,
      TailFreeSamplingZ: 1,
      PromptCacheAll: true,
    })
    expect(chat({}, {}, { isLlama: false })).not.toHaveProperty('TopK')
    expect(chat({})).not.toHaveProperty('Penalty')
    expect(chat({})).not.toHaveProperty('Prompt')
  })

  it.each<[object, object]>([
    [{ temperature: 0 }, { Temperature: 0 }],
    [
      { top_p: 0.5, top_k: 3, min_p: 0.1 },
      { TopP: 0.5, TopK: 3, MinP: 0.1 },
    ],
    [{ max_tokens: 5 }, { Tokens: 5 }],
    [{ max_tokens: 5, max_completion_tokens: 6 }, { Tokens: 6 }],
    [{ seed: 0 }, { Seed: 0 }],
    [{ stop: 'x' }, { StopPrompts: ['x'] }],
    [{ stop: ['x', 'y'] }, { StopPrompts: ['x', 'y'] }],
    [
      { frequency_penalty: 0.1, presence_penalty: -1, repeat_penalty: 1.1 },
      { FrequencyPenalty: 0.1, PresencePenalty: -1, Penalty: 1.1 },
    ],
    [
      { tools: [{ type: 'function' }], tool_choice: 'auto' },
      { Tools: '[{"type":"function"}]', ToolChoice: '"auto"' },
    ],
    [{ logit_bias: { 5: -100 } }, { LogitBias: '{"5":-100}' }],
    [
      { logprobs: true, top_logprobs: 2 },
      { Logprobs: 1, TopLogprobs: 2 },
    ],
    [
      { tfz: 0.5, n_keep: 3, n_draft: 4, prompt_cache_all: false, prompt_cache_ro: true, negative_prompt_scale: 2, batch: 8 },
      { TailFreeSamplingZ: 0.5, NKeep: 3, NDraft: 4, PromptCacheAll: false, PromptCacheRO: true, NegativePromptScale: 2, Batch: 8 },
    ],
    [{ reasoning_effort: 'low' }, { Metadata: { reasoning_effort: 'low' } }],
    [{ reasoning_effort: 'none' }, { Metadata: { reasoning_effort: 'none', enable_thinking: 'false' } }],
    [{ enable_thinking: true, reasoning_effort: 'none' }, { Metadata: { reasoning_effort: 'none', enable_thinking: 'true' } }],
    [{ metadata: { enable_thinking: 'false', user: 'x' } }, { Metadata: { enable_thinking: 'false' } }],
    [
      { chat_template_kwargs: { enable_thinking: false, a: [1] } },
      { Metadata: { enable_thinking: 'false', chat_template_kwargs: '{"enable_thinking":false,"a":[1]}' } },
    ],
    [
      { functions: [{ name: 'f' }], function_call: { name: 'f' } },
      { Tools: '[{"type":"function","function":{"name":"f"}}]', ToolChoice: '{"type":"function","function":{"name":"f"}}' },
    ],
    [{ functions: [{ name: 'f' }], function_call: 'none' }, { ToolChoice: '"none"' }],
    [{ response_format: { type: 'json_object' } }, { Grammar: expect.stringContaining('root ::= ws object') }],
    [
      { grammar: 'x', response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { enum: ['a'] } } } },
      { Grammar: expect.stringContaining('r0 ::= "\\"a\\""') },
    ],
    [{ grammar: 'root ::= "a"' }, { Grammar: 'root ::= "a"' }],
    [{ response_format: { type: 'text' } }, {}],
    [
      { temperature: null, stop: null, n: null },
      { Temperature: 0.9, StopPrompts: [] },
    ],
  ])('%j', (given, want) => expect(chat(given)).toMatchObject(want))

  it('starts from the parameters of the model', () => {
    expect(chat({ top_k: 1 }, { temperature: 0.2, top_k: 9, max_tokens: 7, stop: ['z'] })).toMatchObject({
      Temperature: 0.2,
      TopK: 1,
      Tokens: 7,
      StopPrompts: ['z'],
    })
  })

  it('joins the stop words of the model and of the request', () => {
    expect(chat({ stop: ['x', 'z'] }, { stop: ['z', 'y'] })).toMatchObject({ StopPrompts: ['z', 'y', 'x'] })
  })

  it.each(['repeat_penalty', 'frequency_penalty', 'presence_penalty', 'n_keep', 'batch', 'negative_prompt_scale'])(
    'a zero of %s leaves the value of the model',
    (key) => expect(chat({ [key]: 0 }, { [key]: 3 })).toEqual(chat({}, { [key]: 3 })),
  )

  it.each(['temperature', 'top_p', 'top_k', 'min_p', 'typical_p', 'seed', 'tfz'])('a zero of %s counts', (key) => {
    expect(chat({ [key]: 0 }, { [key]: 3 })).toEqual(chat({}, { [key]: 0 }))
  })

  it('has metadata of the model, which a request overrides', () => {
    const parameters = { enable_thinking: false, reasoning_effort: 'high', chat_template_kwargs: { a: 1, b: 2 }, logit_bias: { 7: 1 } }
    expect(chat({ chat_template_kwargs: { b: 3 } }, parameters)).toMatchObject({
      LogitBias: '{"7":1}',
      Metadata: {
        enable_thinking: 'false',
        reasoning_effort: 'high',
        chat_template_kwargs: '{"enable_thinking":false,"reasoning_effort":"high","a":1,"b":3}',
      },
    })
    expect(chat({ enable_thinking: true }, { enable_thinking: false })).toMatchObject({ Metadata: { enable_thinking: 'true' } })
  })

  it('takes the function call of the older API', () => {
    const given = [{ role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } }]
    expect(chat({ messages: given })).toMatchObject({
      Messages: [{ role: 'assistant', tool_calls: '[{"type":"function","function":{"name":"f","arguments":"{}"}}]' }],
    })
  })

  it('takes parts and tool results', () => {
    const given = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } },
          { type: 'text', text: 'b' },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c' }] },
      { role: 'tool', content: 'r', tool_call_id: 'c', name: 'f' },
    ]
    expect(chat({ messages: given })).toMatchObject({
      Images: ['QUJD'],
      Messages: [
        { role: 'user', content: 'ab' },
        { role: 'assistant', content: '', tool_calls: '[{"id":"c"}]' },
        { role: 'tool', content: 'r', tool_call_id: 'c', name: 'f' },
      ],
    })
  })

  it.each<[object, string]>([
    [{ n: 2 }, 'n'],
    [{ response_format: { type: 'json_object' } }, 'response_format'],
    [{ response_format: { type: 'json_schema' } }, 'response_format'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a/b.png' } }] }] }, 'messages'],
    [{ messages: [{ role: 'user', content: [{ type: 'video' }] }] }, 'messages'],
  ])('is refused, with the field: %j', (given, param) => expect(chat(given, {}, { isLlama: false })).toMatchObject({ param }))

  it('a schema that no grammar expresses is refused by its keyword', () => {
    expect(chat({ response_format: { type: 'json_schema', json_schema: { schema: { type: 'string', pattern: 'a' } } } })).toEqual({
      refused: expect.stringContaining('has pattern, which cannot be guaranteed'),
      param: 'response_format',
    })
    expect(chat({ response_format: { type: 'xml' } })).toMatchObject({ param: 'response_format' })
  })
})

describe('a chat with a template', () => {
  const seen = (more: object, parameters: object = {}): TemplatedChat => {
    let given: TemplatedChat | null = null
    const renderChat = (each: TemplatedChat): string => {
      given = each
      return 'the prompt'
    }
    const options = chat(more, parameters, { renderChat })
    expect(options).toMatchObject({ Prompt: 'the prompt' })
    expect(options).not.toHaveProperty('Messages')
    expect(options).not.toHaveProperty('UseTokenizerTemplate')
    if (given === null) throw new Error('no chat was rendered')
    return given
  }
  const tools = [
    { type: 'function', function: { name: 'f', description: 'd', parameters: { a: 1 } } },
    { type: 'function', function: { name: 'g' } },
  ]

  it('hands over messages, calls and media', () => {
    const image = { type: 'image_url', image_url: 'data:image/png;base64,QUJD' }
    const given = [
      { role: 'user', content: [{ type: 'text', text: 'a' }, image, image] },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
      { role: 'tool', content: 'r', name: 'f' },
      { role: 'assistant', content: '', function_call: { name: 'g', arguments: '{}' } },
    ]
    const none = { audios: 0, images: 0, videos: 0 }
    expect(seen({ messages: given }).messages).toEqual([
      { role: 'user', text: 'a', name: '', calls: null, media: { ...none, images: 2 } },
      { role: 'assistant', text: '', name: '', calls: [{ index: 0, id: 'c', type: 'function', name: 'f', arguments: '{}' }], media: none },
      { role: 'tool', text: 'r', name: 'f', calls: null, media: none },
      { role: 'assistant', text: '', name: '', calls: { name: 'g', arguments: '{}' }, media: none },
    ])
  })

  it('hands over the functions that may be called', () => {
    expect(seen({ tools }).functions).toEqual([
      { name: 'f', description: 'd', parameters: { a: 1 }, strict: false },
      { name: 'g', description: '', parameters: null, strict: false },
    ])
    expect(seen({ tools, tool_choice: 'none' }).functions).toEqual([])
    expect(seen({ tools, tool_choice: { type: 'function', function: { name: 'g' } } }).functions).toMatchObject([{ name: 'g' }])
    expect(seen({ functions: [{ name: 'h' }] }).functions).toMatchObject([{ name: 'h' }])
  })

  it('hands over grammar, effort and metadata', () => {
    expect(seen({ grammar: 'x', reasoning_effort: 'low' })).toMatchObject({
      hasGrammar: true,
      reasoningEffort: 'low',
      metadata: { reasoning_effort: 'low' },
    })
    expect(seen({}, { reasoning_effort: 'high' })).toMatchObject({ hasGrammar: false, reasoningEffort: 'high' })
  })
})

describe('a completion', () => {
  it('is the prompt unchanged', () => {
    expect(complete({ max_tokens: 3 })).toMatchObject({ Prompt: 'p', Tokens: 3 })
    expect(complete({ prompt: ['q'] })).toMatchObject({ Prompt: 'q' })
    expect(complete({})).not.toHaveProperty('UseTokenizerTemplate')
  })

  it('goes through the template of the model', () => {
    expect(complete({}, (text) => `<${text}>`)).toMatchObject({ Prompt: '<p>' })
  })

  it.each([{ echo: true }, { suffix: 's' }, { best_of: 2 }, { n: 3 }])('is refused: %j', (given) => {
    expect(complete(given)).toHaveProperty('refused')
  })
})
