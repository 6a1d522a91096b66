// The messages of backend.proto that are used, in the form of proto-loader. An absent field is zero.

export type PredictOptions = Readonly<{
  Prompt?: string
  Seed?: number
  Tokens?: number
  TopK?: number
  Repeat?: number
  Batch?: number
  NKeep?: number
  Temperature?: number
  Penalty?: number
  StopPrompts?: readonly string[]
  IgnoreEOS?: boolean
  TailFreeSamplingZ?: number
  TypicalP?: number
  FrequencyPenalty?: number
  PresencePenalty?: number
  Mirostat?: number
  MirostatETA?: number
  MirostatTAU?: number
  LogitBias?: string
  PromptCacheAll?: boolean
  PromptCacheRO?: boolean
  Grammar?: string
  TopP?: number
  EmbeddingTokens?: readonly number[]
  Embeddings?: string
  NegativePromptScale?: number
  NegativePrompt?: string
  NDraft?: number
  Images?: readonly string[]
  UseTokenizerTemplate?: boolean
  Messages?: readonly ChatMessage[]
  Audios?: readonly string[]
  CorrelationId?: string
  Tools?: string
  ToolChoice?: string
  Logprobs?: number
  TopLogprobs?: number
  Metadata?: Readonly<Record<string, string>>
  MinP?: number
  ModelIdentity?: string
}>

export type ChatMessage = Readonly<{
  role: string
  content: string
  name?: string
  tool_call_id?: string
  reasoning_content?: string
  tool_calls?: string
}>

export type ToolCallDelta = Readonly<{ index: number; id: string; name: string; arguments: string }>
export type ChatDelta = Readonly<{ content: string; reasoning_content: string; tool_calls: readonly ToolCallDelta[] }>
export type Reply = Readonly<{
  message: Buffer
  tokens: number
  prompt_tokens: number
  logprobs: Buffer
  chat_deltas: readonly ChatDelta[]
}>

export type Result = Readonly<{ message: string; success: boolean }>
export type StatusResponse = Readonly<{ state: 'UNINITIALIZED' | 'BUSY' | 'READY' | 'ERROR' }>
export type EmbeddingResult = Readonly<{
  embeddings: readonly number[]
  tokens: number
  dim: number
  prompt_tokens: number
  layout: 'UNSPECIFIED' | 'FINAL' | 'PER_TOKEN'
}>
export type ModelMetadata = Readonly<{ supports_thinking: boolean; rendered_template: string; media_marker: string }>
export type TokenizationResponse = Readonly<{ length: number; tokens: readonly number[] }>
/** Its fields by their names in backend.proto. */
export type ModelOptions = Readonly<Record<string, unknown>>
