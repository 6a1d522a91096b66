// Plans a model from an entry of a gallery: merges its base, its overrides and the changes of a request, converts LocalAI's keys,
// and collects the files. The steps, in this order:
//   1. The configuration: of the base file, else of the entry; then the overrides of the entry, then those of the request.
//   2. The name: of the request, else of the overrides, else of the entry.
//   3. The files: of the base file, the entry and the request; of equal names the last one counts.
//   4. Snapshots of repositories become files (artifacts.pure.ts).
//   5. LocalAI's keys become Muster's (convert-model.pure.ts). ModelConfig checks the result.
import type { ConfigFile, ModelGalleryEntry } from '@muster/protocol'
import { applySnapshots, type Artifact, findArtifacts, type Snapshot, snapshotFiles } from './artifacts.pure.ts'
import type { BaseFile } from './base-file.ts'
import { type ConvertedKey, convertModel } from './convert-model.pure.ts'
import { mergeOverrides } from './merge-overrides.pure.ts'

type Mapping = Readonly<Record<string, unknown>>

/** Changes of a request. */
export interface EntryChanges {
  readonly name: string | null
  readonly overrides: Mapping
  readonly files: readonly ConfigFile[]
}

export const noChanges: EntryChanges = { name: null, overrides: {}, files: [] }

export interface MergedEntry {
  readonly format: 'muster' | 'localai'
  readonly config: Mapping
  readonly files: readonly ConfigFile[]
  /** Repositories that have to be listed before the plan is complete. */
  readonly artifacts: readonly Artifact[]
  /** The reason why the entry cannot be planned; null otherwise. */
  readonly problem: string | null
}

/** Steps 1 to 3. */
export function mergeEntry(entry: ModelGalleryEntry, { base, changes }: { base: BaseFile; changes: EntryChanges }): MergedEntry {
  const { localai } = entry
  const files = lastOfEachName([...base.files, ...entry.files, ...changes.files])
  const start = localai === null ? entry.config : localai.base === null ? localai.config : base.config
  const overrides = mergeOverrides(localai?.overrides ?? {}, changes.overrides)
  const merged = mergeOverrides({ ...start, name: entry.name }, overrides)
  const config = changes.name === null ? merged : { ...merged, name: changes.name }
  if (localai === null) return { format: 'muster', config, files, artifacts: [], problem: null }
  const found = findArtifacts(
    config,
    files.map(({ filename }) => filename),
  )
  return 'problem' in found
    ? { format: 'localai', config, files, artifacts: [], problem: found.problem }
    : { format: 'localai', config, files, artifacts: found.artifacts, problem: null }
}

export interface PlannedModel {
  /** In Muster's keys; not yet checked by ModelConfig. */
  readonly config: Mapping
  /** The report of the conversion; empty for Muster's own format. */
  readonly keys: readonly ConvertedKey[]
}

/** Steps 4 and 5. Without the snapshots of its artifacts the plan lacks their files. */
export function planModel({ format, config, files }: MergedEntry, snapshots: readonly Snapshot[]): PlannedModel {
  const all = [...snapshots.flatMap(snapshotFiles), ...files]
  if (format === 'muster') return { config: withFiles(config, all), keys: [] }
  const { config: converted, keys } = convertModel(applySnapshots(config, snapshots))
  return { config: withFiles(converted, all), keys }
}

/** For equal names the configuration wins. */
function withFiles(config: Mapping, files: readonly ConfigFile[]): Mapping {
  const own: readonly unknown[] = Array.isArray(config['files']) ? config['files'] : []
  return { ...config, files: lastOfEachName([...files, ...own] as readonly ConfigFile[]) }
}

function lastOfEachName(files: readonly ConfigFile[]): ConfigFile[] {
  const last = new Map(files.map((file) => [file.filename, file]))
  return [...last.values()]
}
