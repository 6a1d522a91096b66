// Unpacked trees: built in a staging directory, renamed into place once verified and durable, and changed afterwards only
// to repair files that differ from the manifest.
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { newId, type Log, type Step } from '@muster/host'
import { FleetError, failureOf, type Digest, type UnpackLimits } from '@muster/protocol'
import { fileSize } from './blobs.ts'
import type { Layout } from './records.ts'
import type { Threads } from './threads.ts'
import { syncPath } from './unpack/sync.ts'
import { readSummary, type TreeLayer, type TreeSummary } from './unpack/tree-manifest.ts'

export interface BuildOptions {
  readonly signal: AbortSignal
  /** Packed bytes read so far, and in total. */
  readonly onProgress?: (current: number, total: number) => void
  /** A sign of life while the job runs or waits for its turn. */
  readonly onSign?: () => void
  /** Compares an existing tree with its content and repairs it. Without it an existing tree is kept as found. */
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
  const found = await readTree(layout, tree)
  if (found !== null && options.onExisting !== 'repair') return found
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

export async function verifyTree({ layout, threads, log }: TreesDeps, tree: Digest, options: SignOptions): Promise<'intact' | 'damaged'> {
  const problems = await threads.run('verify', { directory: layout.tree(tree) }, options)
  if (problems.length > 0) log.warn('tree damaged', { tree, problems })
  return problems.length === 0 ? 'intact' : 'damaged'
}

async function createStaging(layout: Layout): Promise<string> {
  const staging = join(layout.staging, newId())
  await mkdir(staging, { mode: 0o700 })
  return staging
}

async function removeStaging(staging: string): Promise<void> {
  await rm(staging, { recursive: true, force: true })
}

async function placeTree(
  { layout, threads, log, step }: TreesDeps,
  { staging, tree }: { readonly staging: string; readonly tree: Digest },
  options: BuildOptions,
): Promise<void> {
  await step('W.unpack.done')
  const directory = layout.tree(tree)
  if ((await fileSize(directory)) === null) await rename(staging, directory)
  else if (options.onExisting === 'repair' || (await readTree(layout, tree)) === null) {
    const repaired = await threads.run('repair', { fresh: staging, directory }, options)
    log.info('tree repaired', { tree, repaired })
  }
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
