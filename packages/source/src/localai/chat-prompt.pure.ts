// The prompt of a model that has Go templates, put together as LocalAI does: each message by `chat_message` or by its role, joined, then
// inside `chat` or `function`. A template that fails on the data of a request is skipped, as there.
import { FleetError, type ModelConfig } from '@muster/protocol'
import { parseTemplate } from './go-template.pure.ts'
import { renderTemplate, type TemplateData, TemplateStruct } from './render-template.pure.ts'

export type PromptCall = Readonly<{ index: number; id: string; type: string; name: string; arguments: string }>
export type PromptMessage = Readonly<{
  role: string
  text: string
  name: string
  /** Null: none. A message has tool calls, or one function call of the older API. */
  calls: readonly PromptCall[] | Readonly<{ name: string; arguments: string }> | null
  /** How many media of each kind the message has. */
  media: Readonly<{ audios: number; images: number; videos: number }>
}>
export type PromptFunction = Readonly<{ name: string; description: string; parameters: unknown; strict: boolean }>
export type PromptChat = Readonly<{
  messages: readonly PromptMessage[]
  /** The answer may call these. */
  functions: readonly PromptFunction[]
  hasGrammar: boolean
  reasoningEffort: string
  metadata: Readonly<Record<string, string>>
}>
/** Null: the model has no template for it. */
export type CompiledPrompts = Readonly<{ chat: ((chat: PromptChat) => string) | null; completion: ((text: string) => string) | null }>

/** The place of a medium in a prompt, unless the backend names another. */
export const mediaMarker = '<__media__>'

/** `systemPrompt`: for templates that print it. */
type PromptConfig = Pick<ModelConfig, 'template' | 'roles'> & Readonly<{ systemPrompt?: string }>
type Render = (data: TemplateData) => string

/** False: the backend applies the template of the model itself. */
export const hasChatTemplate = ({ template = {} }: PromptConfig): boolean =>
  template.use_tokenizer_template !== true && (isSet(template.chat) || isSet(template.chat_message))

/** Throws FleetError `invalid`, with the name of the template. Templates that nothing renders are not read. */
export function compilePrompts(config: PromptConfig): CompiledPrompts {
  const { template = {}, systemPrompt = '' } = config
  const completion = compile('completion', template.completion)
  const templates = hasChatTemplate(config) ? compileChat(config) : null
  return {
    chat: templates === null ? null : (chat) => chatPrompt(chat, templates),
    completion: completion === null ? null : (text) => attempt(completion, { Input: text, SystemPrompt: systemPrompt }) ?? text,
  }
}

const compileChat = ({ template = {}, roles = {}, systemPrompt = '' }: PromptConfig): Templates => ({
  chat: compile('chat', template.chat),
  message: compile('chat_message', template.chat_message),
  function: compile('function', template.function),
  multimodal: compile('multimodal', template.multimodal),
  join: template.join_chat_messages_by_character ?? '\n',
  roles,
  systemPrompt,
})

const isSet = (text: string | undefined): boolean => text !== undefined && text !== ''

function compile(name: string, text: string | undefined): Render | null {
  if (text === undefined || text === '') return null
  try {
    const template = parseTemplate(text)
    return (data) => renderTemplate(template, data)
  } catch (error) {
    if (!(error instanceof FleetError)) throw error
    throw new FleetError({ ...error.failure, message: `template.${name}: ${error.failure.message}` }, { cause: error })
  }
}

type Templates = Readonly<{
  chat: Render | null
  message: Render | null
  function: Render | null
  multimodal: Render | null
  join: string
  roles: Readonly<Record<string, string>>
  systemPrompt: string
}>

/** Null: the template failed on this data. */
function attempt(render: Render | null, data: TemplateData): string | null {
  try {
    return render === null ? null : render(data)
  } catch (error) {
    if (error instanceof FleetError) return null
    throw error
  }
}

function chatPrompt(chat: PromptChat, templates: Templates): string {
  const texts: string[] = []
  const media = { audios: 0, images: 0, videos: 0 }
  let hasSystem = false
  for (const [at, message] of chat.messages.entries()) {
    const content = contentOf(message, templates, media)
    const isLast = at === chat.messages.length - 1
    const templated = attempt(templates.message, messageData(message, { content, at, isLast, hasGrammar: chat.hasGrammar, templates }))
    hasSystem ||= templated === null && message.role === 'system' && content !== ''
    if (templated !== '') texts.push(templated ?? plainMessage(message, content, templates))
  }
  const joined = texts.join(templates.join)
  const outer = chat.functions.length > 0 && templates.function !== null ? templates.function : templates.chat
  const data = {
    Input: joined,
    Functions: chat.functions.map(functionStruct),
    SystemPrompt: templates.systemPrompt,
    SuppressSystemPrompt: hasSystem,
    ReasoningEffort: chat.reasoningEffort,
    Metadata: chat.metadata,
  }
  return attempt(outer, data) ?? joined
}

type MessageFacts = Readonly<{ content: string; at: number; isLast: boolean; hasGrammar: boolean; templates: Templates }>

function messageData(message: PromptMessage, { content, at, isLast, hasGrammar, templates }: MessageFacts): TemplateData {
  const role = roleOf(message, templates)
  return {
    Role: templates.roles[role] ?? '',
    RoleName: role,
    Content: content,
    FunctionCall: callsValue(message),
    FunctionName: message.name,
    SystemPrompt: templates.systemPrompt,
    MessageIndex: at,
    LastMessage: isLast,
    Function: isLast && hasGrammar,
  }
}

function roleOf({ role, calls }: PromptMessage, { roles }: Templates): string {
  return role === 'assistant' && calls !== null && isSet(roles['assistant_function_call']) ? 'assistant_function_call' : role
}

/** Without `chat_message`: the text of the role, the content, then the calls as JSON on a line of their own. */
function plainMessage(message: PromptMessage, content: string, templates: Templates): string {
  const prefix = templates.roles[roleOf(message, templates)] ?? ''
  const text = content === '' ? '' : prefix + content
  if (message.calls === null) return text
  const calls = (prefix === '' ? '' : `${prefix} `) + toJson({ Calls: callsValue(message) })
  return text === '' ? calls : `${text}\n${calls}`
}

const jsonTemplate = parseTemplate('{{toJson .Calls}}')
const toJson = (data: TemplateData): string => renderTemplate(jsonTemplate, data)

function callsValue({ calls }: PromptMessage): unknown {
  if (calls === null || !Array.isArray(calls)) return calls
  return calls.map((call: PromptCall) => callStruct(call))
}

function callStruct({ index, id, type, name, arguments: args }: PromptCall): TemplateStruct {
  const called = new TemplateStruct({ Name: name, Arguments: args }, [
    ['name', name],
    ['arguments', args],
  ])
  return new TemplateStruct({ Index: index, ID: id, Type: type, FunctionCall: called }, [
    ['index', index],
    ['id', id],
    ['type', type],
    ['function', called],
  ])
}

function functionStruct({ name, description, parameters, strict }: PromptFunction): TemplateStruct {
  return new TemplateStruct({ Name: name, Description: description, Parameters: parameters, Strict: strict }, [
    ['name', name],
    ['description', description],
    ['strict', strict],
    ['parameters', parameters],
  ])
}

/** The text of a message with media has their places in it. Media are numbered through all messages. */
function contentOf(
  { text, media }: PromptMessage,
  { multimodal }: Templates,
  before: { audios: number; images: number; videos: number },
): string {
  const [audios, images, videos] = [ids(before.audios, media.audios), ids(before.images, media.images), ids(before.videos, media.videos)]
  before.audios += media.audios
  before.images += media.images
  before.videos += media.videos
  if (audios.length + images.length + videos.length === 0) return text
  const structs = (numbers: readonly number[]): TemplateStruct[] => numbers.map((id) => new TemplateStruct({ ID: id }, [['ID', id]]))
  const data = { Text: text, Audio: structs(audios), Images: structs(images), Video: structs(videos) }
  const plain = mediaMarker.repeat(audios.length + images.length) + videos.map((id) => `[vid-${id}]`).join('') + text
  return attempt(multimodal, data) ?? plain
}

const ids = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at)
