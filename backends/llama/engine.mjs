// llama.cpp with one model in it: loaded once, used by all requests. Knows nothing of HTTP.
import { access, constants } from 'node:fs/promises'
import { createSlots } from './slots.mjs'

/** Without --context-size: the trained size of the model, up to this limit for memory. */
const largestDefaultContext = 4096
const defaultParallel = 4

/** `onProgress`: 0 to 1, while the file is read. */
export async function loadEngine(options, { log, onProgress }) {
  await access(options.modelPath, constants.R_OK)
  // Takes a while: requests in the meantime are answered with model_loading.
  const library = await import('node-llama-cpp')
  const { getLlama, resolveChatWrapper, TokenBias, LlamaChat, LlamaCompletion } = library
  const llama = await getLlama({
    gpu: options.gpu_layers > 0 ? 'auto' : false,
    build: 'never',
    progressLogs: false,
    maxThreads: options.threads,
    logger: (level, message) => log(`llama.cpp ${level}: ${message.trimEnd()}`),
    logLevel: 'error',
  })
  const model = await llama.loadModel({
    modelPath: options.modelPath,
    gpuLayers: options.gpu_layers ?? 0,
    ...(options.mmap === undefined ? {} : { useMmap: options.mmap }),
    onLoadProgress: onProgress,
  })
  const contextSize = options.contextSize ?? Math.min(model.trainContextSize ?? largestDefaultContext, largestDefaultContext)
  const context = await createContext(model, { ...options, contextSize }, log)
  const sequences = Array.from({ length: context.totalSequences }, () => context.getSequence())
  return {
    ...{ llama, model, context, contextSize: context.contextSize, slots: createSlots(sequences), TokenBias, LlamaChat, LlamaCompletion },
    // llama.cpp trusts its caller: a token that it does not have ends the process.
    vocabularySize: [...model.iterateAllTokens()].length,
    chatWrapper: resolveChatWrapper(model),
    embedder: createEmbedder(model, { ...options, contextSize }),
  }
}

/** The context has exactly the requested size; the number of parallel sequences may be lower than usual. */
async function createContext(model, options, log) {
  for (let sequences = options.parallel ?? defaultParallel; ; sequences = Math.floor(sequences / 2)) {
    try {
      return await model.createContext({
        contextSize: options.contextSize,
        sequences,
        threads: options.threads,
        failedCreationRemedy: false,
        ...(options.batch_size === undefined ? {} : { batchSize: options.batch_size }),
        ...(options.flash_attention === undefined ? {} : { flashAttention: options.flash_attention }),
      })
    } catch (error) {
      if (sequences === 1 || options.parallel !== undefined) throw error
      log(`no memory for ${sequences} requests at once with ${options.contextSize} tokens each, trying with fewer: ${error.message}`)
    }
  }
}

/** Created on first use: most models never need it. One text at a time. */
function createEmbedder(model, { embeddings = true, contextSize, threads }) {
  let context = null
  return {
    isOffered: embeddings,
    async embed(tokens) {
      context ??= model.createEmbeddingContext({ contextSize, batchSize: contextSize, threads })
      const ready = await context.catch((error) => {
        context = null
        throw error
      })
      return (await ready.getEmbeddingFor(tokens)).vector
    },
  }
}
