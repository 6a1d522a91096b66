// The names of backends in LocalAI's files, and the names under which galleries offer them. Pure.

export type BackendChoice = Readonly<{ is: 'backend'; name: string; type: string | null } | { is: 'refused'; message: string }>

/** `type` becomes the key `type` of the model. */
const aliases: Readonly<Record<string, Readonly<{ name: string; type?: string }>>> = {
  llama: { name: 'llama-cpp' },
  'go-llama': { name: 'llama-cpp' },
  ik_llama: { name: 'ik-llama-cpp' },
  'ik-llama': { name: 'ik-llama-cpp' },
  stablediffusion: { name: 'stablediffusion-ggml' },
  sentencetransformers: { name: 'transformers', type: 'SentenceTransformer' },
  'huggingface-embeddings': { name: 'transformers', type: 'SentenceTransformer' },
  mamba: { name: 'transformers', type: 'Mamba' },
  'transformers-musicgen': { name: 'transformers', type: 'MusicgenForConditionalGeneration' },
  'embedded-store': { name: 'local-store' },
  valkey: { name: 'valkey-store' },
  'locate-anything-cpp': { name: 'locate-anything' },
}

/** Backends of older versions, with those that serve the same kind of model today. */
const gone: Readonly<Record<string, string>> = {
  autogptq: 'vllm or llama-cpp',
  bark: 'kokoro, piper or chatterbox',
  'bert-embeddings': 'llama-cpp or transformers',
  exllama: 'vllm or llama-cpp',
  exllama2: 'vllm or llama-cpp',
  'parler-tts': 'kokoro, piper or chatterbox',
  rwkv: 'llama-cpp',
}

const refusals: Readonly<Record<string, string>> = {
  'cloud-proxy': 'another provider serves the model, not this fleet: clients have to use that provider',
  pattern: 'it is a filter inside LocalAI and serves no requests: leave the model out',
}

/** Engines that generate text: their models get sampling defaults. */
const textEngines = new Set([
  ...['llama-cpp', 'ik-llama-cpp', 'bonsai', 'ds4', 'turboquant'],
  ...['vllm', 'vllm-cpp', 'vllm-omni', 'sglang', 'transformers', 'mlx', 'mlx-vlm', 'mlx-distributed'],
])
const llamaEngines = new Set(['llama-cpp', 'ik-llama-cpp', 'bonsai', 'ds4', 'turboquant'])

/** `model`: the file that the model loads. An empty name is guessed from it. */
export function chooseBackend(written: string, model: string | null): BackendChoice {
  if (written === '') {
    if (model !== null && /\.gguf$/i.test(model)) return { is: 'backend', name: 'llama-cpp', type: null }
    return {
      is: 'refused',
      message: 'the file names no backend, and only .gguf files are served by llama-cpp without one: add "backend: NAME"',
    }
  }
  const key = written.toLowerCase()
  const refusal = Object.hasOwn(refusals, key) ? refusals[key] : undefined
  if (refusal !== undefined) return { is: 'refused', message: refusal }
  if (Object.hasOwn(gone, key))
    return { is: 'refused', message: `no gallery offers ${written} any more: use ${gone[key]}, with a model file for it` }
  const alias = Object.hasOwn(aliases, key) ? aliases[key] : undefined
  if (alias !== undefined) return { is: 'backend', name: alias.name, type: alias.type ?? null }
  return { is: 'backend', name: written, type: null }
}

/** Also for a build of one kind of hardware: `cuda12-llama-cpp`, `vllm-development`. */
const engineOf = (backend: string, engines: ReadonlySet<string>): boolean => {
  const name = backend.toLowerCase().replace(/-development$/, '')
  return (
    engines.has(name) ||
    [...engines].some((engine) => name.endsWith(`-${engine}`) && /^(?:cpu|cuda|rocm|vulkan|metal|intel|sycl|nvidia|amd|hip)/.test(name))
  )
}

export const isTextEngine = (backend: string): boolean => engineOf(backend, textEngines)
export const isLlamaEngine = (backend: string): boolean => engineOf(backend, llamaEngines)
export const backendAliases = aliases
