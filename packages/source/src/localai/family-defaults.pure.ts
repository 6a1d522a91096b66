// Sampling defaults by model family. LocalAI fills them in at run time from a table of its own; the conversion writes them into
// the model, so that nothing depends on a table later. The values are the published recommendations of the families. Pure.

export interface Sampling {
  readonly temperature: number
  readonly top_p: number
  readonly top_k: number
  readonly min_p: number
  readonly repeat_penalty?: number
  readonly presence_penalty?: number
}

type Recommendation = Partial<Sampling>

/** The first pattern that is part of the name counts, so special families are above general ones. */
const families: ReadonlyArray<readonly [pattern: string, values: Recommendation]> = [
  ['qwen3-coder', { temperature: 0.7, top_p: 0.8, top_k: 20, min_p: 0, repeat_penalty: 1.05 }],
  ['qwen3-next-80b-a3b-instruct', { temperature: 0.7, top_p: 0.8, top_k: 20, min_p: 0 }],
  ['qwen3-vl-', { temperature: 0.7, top_p: 0.8, top_k: 20, min_p: 0, presence_penalty: 1.5 }],
  ['instruct-2507', { temperature: 0.7, top_p: 0.8, top_k: 20, min_p: 0 }],
  ['deepseek-r1-0528-qwen3', { temperature: 0.6, top_p: 0.95, top_k: -1, min_p: 0.01 }],
  ['qwen3', { temperature: 0.6, top_p: 0.95, top_k: 20, min_p: 0 }],
  ['qwq', { temperature: 0.6, top_p: 0.95, top_k: 40, min_p: 0 }],
  ['deepseek-r1', { temperature: 0.6, top_p: 0.95, top_k: -1, min_p: 0.01 }],
  ['qwen2.5', { temperature: 0.7, top_p: 0.8, top_k: 20 }],
  ['qwen2', { temperature: 0.7, top_p: 0.8, top_k: 20 }],
  ['gemma', { temperature: 1, top_p: 0.95, top_k: 64, min_p: 0 }],
  ['nemotron-3', { temperature: 1, top_p: 1, top_k: -1 }],
  ['nemotron', { temperature: 0.6, top_p: 0.95, top_k: -1 }],
  ['hermes-4', { temperature: 0.6, top_p: 0.95, top_k: 20 }],
  ['llama-4', { temperature: 0.6, top_p: 0.9, top_k: -1, min_p: 0.01 }],
  ['llama-3', { temperature: 1.5, top_p: 0.95, top_k: -1, min_p: 0.1 }],
  ['llama3', { temperature: 1.5, top_p: 0.95, top_k: -1, min_p: 0.1 }],
  ['magistral', { temperature: 0.7, top_p: 0.95, top_k: -1, min_p: 0.01 }],
  ['devstral', { temperature: 0.15, top_p: 0.95, top_k: -1, min_p: 0.01 }],
  ['mistral-small', { temperature: 0.15, top_p: 0.95, top_k: -1 }],
  ['ministral-3', { temperature: 0.15, top_p: 0.95, top_k: -1 }],
  ['mistral-nemo', { temperature: 0.3, top_p: 0.95, top_k: -1 }],
  ['deepseek-v3.2', { temperature: 1, top_p: 0.95, top_k: -1, min_p: 0.01 }],
  ['deepseek-v3.1', { temperature: 0.6, top_p: 0.95, top_k: -1, min_p: 0.01 }],
  ['deepseek-v3', { temperature: 0.3, top_p: 0.95, top_k: -1, min_p: 0.01 }],
  ['phi-4-reasoning', { temperature: 0.8, top_p: 0.95, top_k: 50 }],
  ['glm-4.5', { temperature: 0.6, top_p: 0.95, top_k: -1 }],
  ['glm-4', { temperature: 1, top_p: 0.95, top_k: 40 }],
  ['glm-5', { temperature: 1, top_p: 0.95, top_k: -1 }],
  ['minimax-m', { temperature: 1, top_p: 0.95, top_k: 40 }],
  ['kimi-k2-thinking', { temperature: 1, top_p: 0.95, top_k: -1 }],
  ['kimi-k2.5', { temperature: 1, top_p: 0.95, top_k: -1 }],
  ['kimi', { temperature: 0.6, top_p: 0.95, top_k: -1, min_p: 0.01 }],
  ['gpt-oss', { temperature: 1, top_p: 1, top_k: 0, min_p: 0 }],
  ['granite-4', { temperature: 0, top_p: 1, top_k: 0 }],
  ['lfm2.5', { temperature: 0.1, top_p: 0.1, top_k: 50, repeat_penalty: 1.05 }],
  ['lfm2', { temperature: 0.3, min_p: 0.15, repeat_penalty: 1.05 }],
  ['smollm3', { temperature: 0.6, top_p: 0.95 }],
  ['smollm2', { temperature: 0.2, top_p: 0.9 }],
  ['hunyuan', { temperature: 0.7, top_p: 0.8, top_k: 20, repeat_penalty: 1.05 }],
  ['ernie-4.5', { temperature: 0.8, top_p: 0.8 }],
  ['seed-oss', { temperature: 1.1, top_p: 0.95 }],
  ['olmo-3', { temperature: 0.6, top_p: 0.95 }],
  ['exaone', { temperature: 0.6, top_p: 0.95 }],
  ['mimo', { temperature: 0.6, top_p: 0.95 }],
  ['apertus', { temperature: 0.8, top_p: 0.9 }],
  ['command-r', { temperature: 0.3 }],
  ['command-a', { temperature: 0.3 }],
]

/** LocalAI's values for a model of no known family; only engines of the llama family have a top_k. */
const generic = { temperature: 0.9, top_p: 0.95, top_k: 40, min_p: 0 } as const

const plainName = (text: string): string =>
  text
    .toLowerCase()
    .replace(/^.*\//, '')
    .replace(/\.gguf$/, '')
    .replaceAll('_', '-')

/** The name of the model counts before that of its file. Null: no family that is known. */
export function familyOf({ name, model }: { readonly name: string; readonly model: string }): string | null {
  for (const text of [plainName(name), plainName(model)]) {
    const found = families.find(([pattern]) => text.includes(pattern))
    if (found !== undefined) return found[0]
  }
  return null
}

export function samplingOf(family: string | null, { isLlamaEngine }: { readonly isLlamaEngine: boolean }): Sampling {
  const recommended = families.find(([pattern]) => pattern === family)?.[1]
  return { ...generic, ...(isLlamaEngine ? {} : { top_k: 0 }), ...recommended }
}
