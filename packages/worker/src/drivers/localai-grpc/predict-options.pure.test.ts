import { describe, expect, it } from 'vitest'
import { ChatRequest, CompletionRequest, Sampling } from './openai-request.ts'
import { chatOptions, completionOptions } from './predict-options.pure.ts'

const messages = [{ role: 'user', content: 'hi' }]
const none = Sampling.parse({})
const chat = (more: object, parameters: object = {}) => chatOptions(ChatRequest.parse({ messages, ...more }), Sampling.parse(parameters))
const complete = (more: object) => completionOptions(CompletionRequest.parse({ prompt: 'p', ...more }), none)

describe('a chat', () => {
  it('is left to the template of the backend', () => {
    expect(chat({})).toMatchObject({
      UseTokenizerTemplate: true,
      Messages: [{ role: 'user', content: 'hi' }],
      Seed: -1,
      TopK: 40,
      Tokens: 0,
    })
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
    [{ functions: [] }, 'functions'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a/b.png' } }] }] }, 'messages'],
    [{ messages: [{ role: 'user', content: [{ type: 'video' }] }] }, 'messages'],
  ])('is refused, with the field: %j', (given, param) => expect(chat(given)).toMatchObject({ param }))
})

describe('a completion', () => {
  it('is the prompt unchanged', () => {
    expect(complete({ max_tokens: 3 })).toMatchObject({ Prompt: 'p', Tokens: 3 })
    expect(complete({ prompt: ['q'] })).toMatchObject({ Prompt: 'q' })
    expect(complete({})).not.toHaveProperty('UseTokenizerTemplate')
  })

  it.each([{ echo: true }, { suffix: 's' }, { best_of: 2 }, { n: 3 }])('is refused: %j', (given) => {
    expect(complete(given)).toHaveProperty('refused')
  })
})
