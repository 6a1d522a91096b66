// Unpacked trees: built in a staging directory, renamed into place once verified and durable, and changed afterwards only
// to repair files that differ from the manifest. A tree that was found damaged keeps a mark beside its manifest until it is
// repaired or found intact, so that no later report takes it for intact, also after a restart.
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ifMissing, newId, type Log, type Step } from '@muster/host'
import { FleetError, failureOf, type Digest, type UnpackLimits } from '@muster/protocol'
import { fileSize } from './blobs.ts'
import type { Layout } from './records.ts'
import type { VerifyJob } from './thread/jobs.ts'
import type { Threads } from './threads.ts'
import { syncPath } from './unpack/sync.ts'
import { readSummary, type TreeLayer, type TreeSummary } from './unpack/tree-manifest.ts'

export interface BuildOptions {
  readonly signal: AbortSignal
  /** Packed bytes read so far, and in total. */
  readonly onProgress?: (current: number, total: number) => void
  /** A sign of life while the job runs or waits for its turn. */
  readonly onSign?: () => void
  /** Rebuilds an existing tree and replaces entries that differ. Without it this happens only to a tree that is damaged. */
  readonly onExisting?: 'repair'
}

export type SignOptions = Pick<BuildOptions, 'signal' | 'onSign'>

export interface TreesDeps {
  readonly layout: Layout
  readonly threads: Threads
  readonly log: Log
  readonly step: Step
  readonly limits: UnpackLimits
  readonly keepFreeBytes: number
  readonly requireSpace: (bytes: number) => Promise<void>
  /** Trees that were found damaged, also where no mark could be written. */
  readonly damaged: Set<Digest>
}

/** Null when the tree does not exist or its manifest is unreadable. */
export async function readTree(layout: Layout, tree: Digest): Promise<TreeSummary | null> {
  return readSummary(join(layout.tree(tree), 'manifest')).catch(() => null)
}

export interface TreeRequest {
  readonly tree: Digest
  readonly layers: readonly TreeLayer[]
}

export async function unpackTree(deps: TreesDeps, { tree, layers }: TreeRequest, options: BuildOptions): Promise<TreeSummary> {
  const { layout, threads, step, limits, keepFreeBytes } = deps
  const found = options.onExisting === 'repair' ? null : await readTree(layout, tree)
  if (found !== null && (await verifyTree(deps, { tree, depth: 'content' }, options)) === 'intact') return found
  const located = await Promise.all(layers.map((layer) => locate(layout, layer)))
  await deps.requireSpace(located.reduce((sum, { size }) => sum + size, 0))
  const staging = await createStaging(layout)
  try {
    const job = { staging, layers: located, limits, keepFreeBytes }
    const built = await threads.run('unpack', job, { ...options, step }).catch(async (error: unknown) => {
      throw await findDamagedLayer(deps, { error, layers }, options)
    })
    await placeTree(deps, { staging, tree }, options)
    return built
  } finally {
    await removeStaging(staging)
  }
}

/** A tree that is built but not placed: its digest is known only after the copy. */
export interface StagedTree extends AsyncDisposable {
  readonly digest: Digest
  readonly summary: TreeSummary
  place(): Promise<void>
}

export interface CopyOptions extends BuildOptions {
  /** Receives the staged copy, which no other process changes. */
  readonly digestOf: (directory: string) => Promise<Digest>
}

export async function copyTree(deps: TreesDeps, from: string, options: CopyOptions): Promise<StagedTree> {
  const { layout, threads, limits, keepFreeBytes, step } = deps
  await deps.requireSpace(0)
  const staging = await createStaging(layout)
  try {
    const summary = await threads.run('copy', { staging, from, limits, keepFreeBytes }, { ...options, step })
    const digest = await options.digestOf(join(staging, 'root'))
    return {
      digest,
      summary,
      place: () => placeTree(deps, { staging, tree: digest }, options),
      [Symbol.asyncDispose]: () => removeStaging(staging),
    }
  } catch (error) {
    await removeStaging(staging)
    throw error
  }
}

/** `missing`: nothing states what the tree should contain. */
export type TreeCondition = 'intact' | 'damaged' | 'missing'

/** By the last verification or inspection; reads no file of the tree. */
export async function readCondition({ layout, damaged }: Pick<TreesDeps, 'layout' | 'damaged'>, tree: Digest): Promise<TreeCondition> {
  if ((await readTree(layout, tree)) === null) return 'missing'
  const isMarked = damaged.has(tree) || (await fileSize(markOf(layout, tree))) !== null
  const root = isMarked ? null : await stat(join(layout.tree(tree), 'root')).catch(() => null)
  return root?.isDirectory() === true ? 'intact' : 'damaged'
}

export type TreeCheck = Readonly<{ tree: Digest; depth: VerifyJob['depth'] }>

export async function verifyTree(deps: TreesDeps, { tree, depth }: TreeCheck, options: SignOptions): Promise<'intact' | 'damaged'> {
  const { layout, threads, log } = deps
  const problems = await threads.run('verify', { directory: layout.tree(tree), depth }, options)
  if (problems.length > 0) {
    log.warn('tree damaged', { tree, problems })
    await markDamaged(deps, tree)
    return 'damaged'
  }
  // Only the content can prove that a damaged tree is intact again.
  if (depth === 'entries') return (await readCondition(deps, tree)) === 'damaged' ? 'damaged' : 'intact'
  await removeMark(deps, tree)
  return 'intact'
}

const markOf = (layout: Layout, tree: Digest): string => join(layout.tree(tree), 'damaged')

async function markDamaged({ layout, damaged, log }: TreesDeps, tree: Digest): Promise<void> {
  damaged.add(tree)
  // A tree that is gone needs no mark.
  await writeFile(markOf(layout, tree), '', { mode: 0o600 })
    .catch(ifMissing(undefined))
    .catch((error: unknown) => log.warn('cannot mark a damaged tree', { tree, error }))
}

async function removeMark({ layout, damaged }: TreesDeps, tree: Digest): Promise<void> {
  damaged.delete(tree)
  const wasMarked = await rm(markOf(layout, tree)).then(() => true, ifMissing(false))
  if (wasMarked) await syncPath(layout.tree(tree))
}

async function createStaging(layout: Layout): Promise<string> {
  const staging = join(layout.staging, newId())
  await mkdir(staging, { mode: 0o700 })
  return staging
}

async function removeStaging(staging: string): Promise<void> {
  await rm(staging, { recursive: true, force: true })
}

/** An existing tree is compared with the fresh one, and entries that differ are replaced. */
async function placeTree(
  deps: TreesDeps,
  { staging, tree }: { readonly staging: string; readonly tree: Digest },
  options: BuildOptions,
): Promise<void> {
  const { layout, threads, log, step } = deps
  await step('W.unpack.done')
  const directory = layout.tree(tree)
  if ((await fileSize(directory)) === null) await rename(staging, directory)
  else {
    const repaired = await threads.run('repair', { fresh: staging, directory }, options)
    if (repaired.length > 0) log.info('tree repaired', { tree, repaired })
  }
  await removeMark(deps, tree)
  await syncPath(layout.trees)
}

async function locate(layout: Layout, layer: TreeLayer): Promise<TreeLayer & { path: string; size: number }> {
  const path = layout.blob(layer.digest)
  const size = await fileSize(path)
  if (size === null) throw missingLayer(layer.digest)
  return { ...layer, path, size }
}

/** A refused archive is the publisher's fault, unless its bytes changed on this disk after they were verified. */
async function findDamagedLayer(
  { layout, threads }: TreesDeps,
  { error, layers }: { readonly error: unknown; readonly layers: readonly TreeLayer[] },
  options: SignOptions,
): Promise<unknown> {
  if (failureOf(error).code !== 'integrity') return error
  for (const { digest } of layers) {
    const path = layout.blob(digest)
    if ((await threads.digestOf(path, (await fileSize(path)) ?? 0, options)) === digest) continue
    await rm(path, { force: true })
    return damagedLayer(digest, error)
  }
  return error
}

function missingLayer(digest: Digest): FleetError {
  return new FleetError({ code: 'unavailable', retry: 'backoff', message: `the layer ${digest} is not in the store; fetch it first` })
}

function damagedLayer(digest: Digest, cause: unknown): FleetError {
  const message = `the layer ${digest} was damaged on this disk; it was removed and must be fetched again`
  return new FleetError({ code: 'integrity', retry: 'backoff', message }, { cause })
}
