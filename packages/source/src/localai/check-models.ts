// Checks every entry of a model gallery as an install would, without a request for the content of its files: base files are read,
// repositories are not listed.
import { failureOf, type ModelGalleryEntry, ModelConfig } from '@muster/protocol'
import { type BaseFiles, noBase } from './base-file.ts'
import { mergeEntry, noChanges, planModel } from './plan-model.pure.ts'

export interface CheckedModels {
  readonly valid: number
  /** Entries that no node can get, each with the reason. */
  readonly refused: readonly Readonly<{ name: string; message: string }>[]
  /** Valid entries by backend, the most frequent first. */
  readonly backends: readonly Readonly<{ backend: string; models: number }>[]
}

interface CheckDeps {
  readonly bases: BaseFiles
  readonly galleryUrl: string
  readonly signal: AbortSignal
}

export async function checkModels(entries: readonly ModelGalleryEntry[], deps: CheckDeps): Promise<CheckedModels> {
  const counts = new Map<string, number>()
  const refused: { name: string; message: string }[] = []
  for (const entry of entries) {
    const checked = await checkEntry(entry, deps)
    if ('config' in checked) counts.set(checked.config.backend, (counts.get(checked.config.backend) ?? 0) + 1)
    else refused.push({ name: entry.name, message: checked.message })
  }
  const backends = [...counts].map(([backend, models]) => ({ backend, models })).toSorted((a, b) => b.models - a.models)
  return { valid: entries.length - refused.length, refused, backends }
}

type CheckedEntry = Readonly<{ config: ModelConfig } | { message: string }>

async function checkEntry(entry: ModelGalleryEntry, { bases, galleryUrl, signal }: CheckDeps): Promise<CheckedEntry> {
  try {
    const url = entry.localai?.base ?? null
    const base = url === null ? noBase : await bases.read({ url, galleryUrl }, signal)
    const merged = mergeEntry(entry, { base, changes: noChanges })
    if (merged.problem !== null) return { message: merged.problem }
    const { config, keys } = planModel(merged, [])
    const refused = keys.filter(({ outcome }) => outcome === 'refused')
    if (refused.length > 0) return { message: refused.map(({ key, message }) => `${key}: ${message}`).join('; ') }
    const parsed = ModelConfig.safeParse(config)
    if (parsed.success) return { config: parsed.data }
    const [issue] = parsed.error.issues
    return { message: `${issue?.path.join('.')}: ${issue?.message}` }
  } catch (error) {
    signal.throwIfAborted()
    return { message: failureOf(error).message }
  }
}
