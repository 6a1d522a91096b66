import { describe, expect, it } from 'vitest'
import { compilePrompts, hasChatTemplate, type PromptChat, type PromptMessage } from './chat-prompt.pure.ts'

const message = (role: string, text: string, more: Partial<PromptMessage> = {}): PromptMessage => ({
  role,
  text,
  name: '',
  calls: null,
  media: { audios: 0, images: 0, videos: 0 },
  ...more,
})
const chatOf = (messages: PromptMessage[], more: Partial<PromptChat> = {}): PromptChat => ({
  messages,
  functions: [],
  hasGrammar: false,
  reasoningEffort: '',
  metadata: {},
  ...more,
})
type Config = Parameters<typeof compilePrompts>[0]
const prompt = (template: Config['template'], chat: PromptChat, roles?: Config['roles']): string | undefined =>
  compilePrompts({ template, ...(roles === undefined ? {} : { roles }) }).chat?.(chat)
const call = { index: 0, id: 'c1', type: 'function', name: 'f', arguments: '{"a":"<b>"}' }
const calls = message('assistant', '', { calls: [call] })
const tool = { name: 'f', description: 'does f', parameters: { type: 'object', properties: {} }, strict: false }
const two = [message('user', 'hi'), message('assistant', 'hello')]

describe('a prompt', () => {
  it.each<[string, Config['template'], PromptChat, string]>([
    [
      'of each message, joined by a line break',
      { chat_message: '[{{.RoleName}}] {{.Content}}', chat: '{{.Input}}\n>' },
      chatOf(two),
      '[user] hi\n[assistant] hello\n>',
    ],
    ['joined by nothing', { chat_message: '<{{.Content}}>', join_chat_messages_by_character: '' }, chatOf(two), '<hi><hello>'],
    ['without a message that renders to nothing', { chat_message: '{{if eq .RoleName "user"}}{{.Content}}{{end}}' }, chatOf(two), 'hi'],
    [
      'with the place of each message',
      { chat_message: '{{.MessageIndex}}{{.LastMessage}}{{.Function}}' },
      chatOf(two, { hasGrammar: true }),
      '0falsefalse\n1truetrue',
    ],
    ['with the name of a tool', { chat_message: '{{.FunctionName}}={{.Content}}' }, chatOf([message('tool', '4', { name: 'f' })]), 'f=4'],
    [
      'with tool calls as JSON',
      { chat_message: '{{toJson .FunctionCall}}' },
      chatOf([calls]),
      String.raw`[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\u003cb\u003e\"}"}}]`,
    ],
    [
      'with the fields of tool calls',
      { chat_message: '{{range .FunctionCall}}{{.ID}} {{.FunctionCall.Name}}{{end}}' },
      chatOf([calls]),
      'c1 f',
    ],
    [
      'with the function call of the older API',
      { chat_message: '{{toJson .FunctionCall}}' },
      chatOf([message('assistant', '', { calls: { name: 'f', arguments: '{}' } })]),
      '{"arguments":"{}","name":"f"}',
    ],
    [
      'by `function` if there are functions',
      { chat: 'chat', function: '{{range .Functions}}{{.Name}}: {{.Description}} {{toJson .Parameters}}{{end}}|{{.Input}}' },
      chatOf(two, { functions: [tool] }),
      'f: does f {"properties":{},"type":"object"}|hi\nhello',
    ],
    ['by `chat` if there are none', { chat: 'chat {{.Input}}', function: 'function' }, chatOf(two), 'chat hi\nhello'],
    ['by `chat` without a template for functions', { chat: 'chat {{.Input}}' }, chatOf(two, { functions: [tool] }), 'chat hi\nhello'],
    [
      'with effort and metadata',
      { chat: '{{.ReasoningEffort}} {{.Metadata.enable_thinking}}' },
      chatOf(two, { reasoningEffort: 'low', metadata: { enable_thinking: 'false' } }),
      'low false',
    ],
    [
      'whose message template fails: by roles',
      { chat_message: '{{index .FunctionCall "name"}}', chat: '{{.Input}}' },
      chatOf([calls]),
      String.raw`[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\u003cb\u003e\"}"}}]`,
    ],
    ['whose chat template fails: joined only', { chat: '{{.Unknown}}' }, chatOf(two), 'hi\nhello'],
  ])('%s', (_, template, chat, want) => expect(prompt(template, chat)).toBe(want))

  it('by roles has the text of the role before the content, and before calls', () => {
    const roles = { user: 'U: ', assistant: 'A: ', assistant_function_call: 'C:', system: '' }
    const messages = [message('system', 's'), ...two, calls, message('assistant', 'x', { calls: [call] })]
    const json = String.raw`C: [{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\u003cb\u003e\"}"}}]`
    expect(prompt({ chat: '{{.SuppressSystemPrompt}} {{.Input}}' }, chatOf(messages), roles)).toBe(
      `true s\nU: hi\nA: hello\n${json}\nC:x\n${json}`,
    )
  })

  it('has a place for each medium, numbered through all messages', () => {
    const media = { audios: 1, images: 1, videos: 1 }
    const messages = [message('user', 'a', { media }), message('user', 'b', { media })]
    expect(prompt({ chat: '{{.Input}}' }, chatOf(messages))).toBe('<__media__><__media__>[vid-0]a\n<__media__><__media__>[vid-1]b')
    const multimodal = '{{range .Images}}<img {{.ID}}>{{end}}{{.Text}}'
    expect(prompt({ chat: '{{.Input}}', multimodal }, chatOf(messages))).toBe('<img 0>a\n<img 1>b')
  })
})

it('has the system prompt of the model where a template prints it', () => {
  const { chat, completion } = compilePrompts({
    template: { chat: '{{.SystemPrompt}}|{{.Input}}', completion: '{{.SystemPrompt}}' },
    systemPrompt: 'Be brief.',
  })
  expect(chat?.(chatOf(two))).toBe('Be brief.|hi\nhello')
  expect(completion?.('x')).toBe('Be brief.')
})

it('a completion is rendered by its template; one that fails leaves the text', () => {
  expect(compilePrompts({ template: { completion: 'Complete: {{.Input}}' } }).completion?.('x')).toBe('Complete: x')
  expect(compilePrompts({ template: { completion: '{{.Unknown}}' } }).completion?.('x')).toBe('x')
  expect(compilePrompts({}).completion).toBeNull()
})

it.each<[Config['template'], boolean]>([
  [undefined, false],
  [{ completion: 'x' }, false],
  [{ chat: '' }, false],
  [{ chat: 'x' }, true],
  [{ chat_message: 'x' }, true],
  [{ chat: 'x', use_tokenizer_template: true }, false],
])('%j has a chat template: %s', (template, want) => {
  expect(hasChatTemplate({ template })).toBe(want)
  expect(compilePrompts({ template }).chat !== null).toBe(want)
})

it('a template that is not known is refused with its key, unless nothing renders it', () => {
  const template = { chat: '{{.Input}}', multimodal: '{{upper .Text}}' }
  expect(() => compilePrompts({ template })).toThrow(/^template\.multimodal: the template uses upper/)
  expect(compilePrompts({ template: { ...template, use_tokenizer_template: true } }).chat).toBeNull()
})
