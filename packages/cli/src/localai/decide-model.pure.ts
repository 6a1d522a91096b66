// Decides what an import does with one model, from the stored configuration and the wanted one. An import that was killed leaves a
// model without some of its uploads and without its scheduling: it is finished. A model that somebody changed is kept.
import type { ModelConfig } from '@muster/protocol'

export type ModelDecision = 'create' | 'finish' | 'replace' | 'unchanged' | 'keep'

export interface ModelFacts {
  readonly stored: ModelConfig | null
  readonly wanted: ModelConfig
  readonly mayReplace: boolean
}

export function decideModel({ stored, wanted, mayReplace }: ModelFacts): ModelDecision {
  if (stored === null) return 'create'
  if (isSameJson(stored, wanted)) return 'unchanged'
  if (isUnfinished(stored, wanted)) return 'finish'
  return mayReplace ? 'replace' : 'keep'
}

type File = ModelConfig['files'][number]
const isUpload = ({ uri }: File): boolean => uri.startsWith('upload:')
const isSame = (file: File) => (other: File) => file.filename === other.filename && file.uri === other.uri

/** The uploads that the stored model lacks. */
export const missingUploads = (stored: ModelConfig | null, wanted: ModelConfig): File[] =>
  wanted.files.filter((file) => isUpload(file) && !(stored?.files.some(isSame(file)) ?? false))

/** The configuration while uploads are missing: without them, and without scheduling, so that nothing is loaded yet. */
export function unfinishedConfig(stored: ModelConfig | null, wanted: ModelConfig): ModelConfig {
  const missing = missingUploads(stored, wanted)
  return { ...wanted, files: wanted.files.filter((file) => !missing.some(isSame(file))), scheduling: {} }
}

function isUnfinished(stored: ModelConfig, wanted: ModelConfig): boolean {
  const byName = (config: ModelConfig): ModelConfig => ({
    ...config,
    files: config.files.toSorted((a, b) => (a.filename < b.filename ? -1 : 1)),
  })
  return isSameJson(byName(stored), byName(unfinishedConfig(stored, wanted)))
}

/** Configurations are JSON: the order of keys means nothing, the order of lists does. */
function isSameJson(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || one === null || typeof other !== 'object' || other === null) return one === other
  const [first, second] = [new Map<string, unknown>(Object.entries(one)), new Map<string, unknown>(Object.entries(other))]
  if (Array.isArray(one) !== Array.isArray(other) || first.size !== second.size) return false
  return [...first].every(([key, value]) => second.has(key) && isSameJson(value, second.get(key)))
}
