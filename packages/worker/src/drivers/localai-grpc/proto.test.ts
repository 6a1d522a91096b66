import { expect, it } from 'vitest'
import { fieldsOf, methodOf } from './client.ts'

/** The contract again: a kind, then names with their numbers. It must agree with the file, or old images break. */
const contract: Record<string, string> = {
  Result: 'string message=1; bool success=2',
  Reply:
    'bytes message=1; int32 tokens=2 prompt_tokens=3; double timing_prompt_processing=4 timing_token_generation=5; bytes audio=6 logprobs=7; message* chat_deltas=8',
  ChatDelta: 'string content=1 reasoning_content=2; message* tool_calls=3',
  ToolCallDelta: 'int32 index=1; string id=2 name=3 arguments=4',
  Message: 'string role=1 content=2 name=3 tool_call_id=4 reasoning_content=5 tool_calls=6',
  PredictOptions:
    'string Prompt=1; int32 Seed=2 Threads=3 Tokens=4 TopK=5 Repeat=6 Batch=7 NKeep=8; float Temperature=9 Penalty=10; bool F16KV=11 DebugMode=12; string* StopPrompts=13; bool IgnoreEOS=14; float TailFreeSamplingZ=15 TypicalP=16 FrequencyPenalty=17 PresencePenalty=18; int32 Mirostat=19; float MirostatETA=20 MirostatTAU=21; bool PenalizeNL=22; string LogitBias=23; bool MLock=25 MMap=26 PromptCacheAll=27 PromptCacheRO=28; string Grammar=29 MainGPU=30 TensorSplit=31; float TopP=32; string PromptCachePath=33; bool Debug=34; int32* EmbeddingTokens=35; string Embeddings=36; float RopeFreqBase=37 RopeFreqScale=38 NegativePromptScale=39; string NegativePrompt=40; int32 NDraft=41; string* Images=42; bool UseTokenizerTemplate=43; message* Messages=44; string* Videos=45 Audios=46; string CorrelationId=47 Tools=48 ToolChoice=49; int32 Logprobs=50 TopLogprobs=51; message* Metadata=52; float MinP=53; string ModelIdentity=54',
  ModelOptions:
    'string Model=1; int32 ContextSize=2 Seed=3 NBatch=4; bool F16Memory=5 MLock=6 MMap=7 VocabOnly=8 LowVRAM=9 Embeddings=10 NUMA=11; int32 NGPULayers=12; string MainGPU=13 TensorSplit=14; int32 Threads=15; float RopeFreqBase=17 RopeFreqScale=18 RMSNormEps=19; int32 NGQA=20; string ModelFile=21 PipelineType=26 SchedulerType=27; bool CUDA=28; float CFGScale=29; bool IMG2IMG=30; string CLIPModel=31 CLIPSubfolder=32; int32 CLIPSkip=33; string Tokenizer=34 LoraBase=35 LoraAdapter=36; bool NoMulMatQ=37; string AudioPath=38 DraftModel=39 Quantization=40 MMProj=41; float LoraScale=42; string RopeScaling=43; float YarnExtFactor=44 YarnAttnFactor=45 YarnBetaFast=46 YarnBetaSlow=47; string ControlNet=48 Type=49; float GPUMemoryUtilization=50; bool TrustRemoteCode=51 EnforceEager=52; int32 SwapSpace=53 MaxModelLen=54 TensorParallelSize=55; string FlashAttention=56; bool NoKVOffload=57; string LoadFormat=58 ModelPath=59; string* LoraAdapters=60; float* LoraScales=61; string* Options=62; string CacheTypeKey=63 CacheTypeValue=64; message* GrammarTriggers=65; bool DisableLogStatus=66; string DType=67; int32 LimitImagePerPrompt=68 LimitVideoPerPrompt=69 LimitAudioPerPrompt=70; bool Reranking=71; string* Overrides=72; string EngineArgs=73; bool EnableScore=75',
  ModelMetadataResponse: 'bool supports_thinking=1; string rendered_template=2 media_marker=4',
  EmbeddingResult: 'float* embeddings=1; int32 tokens=2 dim=3 prompt_tokens=4; enum layout=5',
  TokenizationResponse: 'int32 length=1; int32* tokens=2',
  StatusResponse: 'enum state=1; message memory=2',
  MemoryUsageData: 'uint64 total=1; message* breakdown=2',
  TranscriptRequest:
    'string dst=2 language=3; uint32 threads=4; bool translate=5 diarize=6; string prompt=7; float temperature=8; string* timestamp_granularities=9; bool stream=10; string ModelIdentity=11',
  TranscriptResult: 'message* segments=1; string text=2 language=3; float duration=4; bool eou=5',
  TranscriptSegment: 'int32 id=1; int64 start=2 end=3; string text=4; int32* tokens=5; string speaker=6; message* words=7',
  TranscriptStreamResponse: 'string delta=1; message final_result=2',
  TTSRequest: 'string text=1 model=2 dst=3 voice=4 language=5 instructions=6; message* params=7; string ModelIdentity=8',
  GenerateImageRequest:
    'int32 height=1 width=2 step=4 seed=5; string positive_prompt=6 negative_prompt=7 dst=8 src=9 EnableParameters=10; int32 CLIPSkip=11; string* ref_images=12; string ModelIdentity=13',
  RerankRequest: 'string query=1; string* documents=2; int32 top_n=3; string ModelIdentity=4',
  RerankResult: 'message usage=1; message* results=2',
}

const told = (text: string): string[] =>
  text.split('; ').flatMap((group) => {
    const [kind, ...names] = group.split(' ')
    return names.map((name) => `${kind} ${name}`)
  })

it.each(Object.entries(contract))('%s has the fields of the contract', (message, text) => {
  const ours = fieldsOf(message).map(
    ({ name, number, kind, isRepeated }) => `${kind.replace('TYPE_', '').toLowerCase()}${isRepeated ? '*' : ''} ${name}=${number}`,
  )
  expect(ours.toSorted()).toEqual(told(text).toSorted())
})

it.each([
  ['Health', false],
  ['LoadModel', false],
  ['Predict', false],
  ['ModelMetadata', false],
  ['PredictStream', true],
  ['AudioTranscriptionStream', true],
  ['TTSStream', true],
])('%s is called by its full name', (name, isStream) => {
  expect(methodOf(name)).toMatchObject({ path: `/backend.Backend/${name}`, requestStream: false, responseStream: isStream })
})
