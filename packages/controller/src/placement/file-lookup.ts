// Finds the content of model files and the memory of replicas from the facts that were read for one placement.
import { Digest } from '@muster/protocol'
import type { RemoteFile } from '../store/file-contents.ts'
import { fileKey, type KnownFiles, type PlacementFile, type PlacementNodeFacts, type PlacementReplicaFacts } from '../store/placement.ts'
import { type KnownFile, MemoryConfig, type ModelMemory, memoryOf } from './memory.pure.ts'

export type FileLookup = (model: string, file: PlacementFile) => KnownFile & Readonly<{ digest: Digest | null }>

/** Facts and sizes of files: those that a node has, that were uploaded, or that were read before. */
export function createFileLookup(
  nodes: readonly PlacementNodeFacts[],
  uploads: ReadonlyMap<string, number>,
  { byDigest, byName }: KnownFiles,
): FileLookup {
  const sizes = new Map<string, number>(uploads)
  for (const { files } of nodes) for (const [digest, size] of files) sizes.set(digest, size)
  return (model, file) => {
    const digest = contentOf(file)
    const named = digest === null ? byName.get(fileKey(model, file.filename)) : undefined
    const known = digest === null ? named : byDigest.get(digest)
    const found = digest ?? Digest.safeParse(named?.digest).data ?? null
    return { digest: found, size: sizes.get(found ?? '') ?? known?.size ?? null, facts: known?.facts ?? null }
  }
}

/** Nothing is known about the content of the file. */
export function isUnread({ byDigest, byName }: KnownFiles, model: string, file: PlacementFile): boolean {
  const digest = contentOf(file)
  return digest === null ? !byName.has(fileKey(model, file.filename)) : !byDigest.has(digest)
}

export function withRemote({ byDigest, byName }: KnownFiles, found: readonly RemoteFile[]): KnownFiles {
  return {
    byDigest: new Map([...byDigest, ...found.flatMap((file) => (file.digest === null ? [] : [[file.digest, file] as const]))]),
    byName: new Map([
      ...byName,
      ...found.flatMap((file) => (file.digest === null ? [[fileKey(file.model, file.filename), file] as const] : [])),
    ]),
  }
}

/** One of its files has no hash. */
export const hasUnnamedContent = ({ files }: Pick<PlacementReplicaFacts, 'files'>): boolean =>
  files.some((file) => contentOf(file) === null)

/** Replicas of one model with equal configurations share one estimate. */
export function memoriesOf(look: FileLookup): (replica: ConfiguredReplica) => ModelMemory {
  const cached = new Map<string, ModelMemory>()
  return (replica) => {
    // Content of files with a hash does not depend on the model.
    const key = hasUnnamedContent(replica) ? fileKey(replica.model, replica.config) : replica.config
    const before = cached.get(key)
    if (before !== undefined) return before
    const memory = memoryOf(MemoryConfig.parse(JSON.parse(replica.config)), (file) => look(replica.model, file))
    cached.set(key, memory)
    return memory
  }
}

type ConfiguredReplica = Pick<PlacementReplicaFacts, 'model' | 'config' | 'files'>

const uploaded = /^upload:(sha256:[0-9a-f]{64})$/

/** The digest of a model's file; null: only its address is known. */
export function contentOf({ uri, sha256 }: Readonly<{ uri: string; sha256?: string | undefined }>): Digest | null {
  const found = sha256 === undefined ? uploaded.exec(uri)?.[1] : `sha256:${sha256}`
  return Digest.safeParse(found).data ?? null
}
