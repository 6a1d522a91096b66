// Unpacked trees: built in a private directory, renamed into place when all of it is verified and on the disk, never
// changed afterwards except to mend what differs from their manifest.
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { newId, type Log } from '@muster/host'
import { FleetError, failureOf, type Digest, type UnpackLimits } from '@muster/protocol'
import { fileSize } from './blobs.ts'
import type { Layout } from './layout.ts'
import type { Threads } from './threads.ts'
import { syncPath } from './unpack/sync.ts'
import { readSummary, type TreeLayer, type TreeSummary } from './unpack/tree-manifest.ts'

export interface BuildOptions {
  readonly signal: AbortSignal
  /** Packed bytes that were used, of all. */
  readonly onProgress?: (current: number, total: number) => void
  /** It goes on, or its turn has not come. */
  readonly onSign?: () => void
  /** What there is to do when the tree is already there; without it, nothing. */
  readonly whenThere?: 'mend'
}

export type SignOptions = Pick<BuildOptions, 'signal' | 'onSign'>
const signOptions = ({ signal, onSign }: SignOptions): SignOptions => ({ signal, ...(onSign === undefined ? {} : { onSign }) })

export interface TreesDeps {
  readonly layout: Layout
  readonly threads: Threads
  readonly log: Log
  readonly step: (name: string) => Promise<void> | void
  readonly limits: UnpackLimits
  readonly keepFreeBytes: number
  readonly requireSpace: (bytes: number) => Promise<void>
}

/** Null when there is no such tree, or none that says what it is. */
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
  if (found !== null && options.whenThere !== 'mend') return found
  const located = await Promise.all(layers.map((layer) => locate(layout, layer)))
  await deps.requireSpace(located.reduce((sum, { size }) => sum + size, 0))
  const staging = await stage(layout)
  try {
    const job = { staging, layers: located, limits, keepFreeBytes }
    const built = await threads.run('unpack', job, { ...options, step }).catch(async (error: unknown) => {
      throw await findDamagedLayer(deps, { error, layers }, options)
    })
    await place(deps, { staging, tree }, options)
    return built
  } finally {
    await discard(staging)
  }
}

/** A tree that was built and whose name is known only now. */
export interface StagedTree extends AsyncDisposable {
  readonly digest: Digest
  readonly summary: TreeSummary
  place(): Promise<void>
}

export interface CopyOptions extends BuildOptions {
  /** Gets the private copy, which nobody else changes. */
  readonly digestOf: (directory: string) => Promise<Digest>
}

export async function copyTree(deps: TreesDeps, from: string, options: CopyOptions): Promise<StagedTree> {
  const { layout, threads, limits, keepFreeBytes, step } = deps
  await deps.requireSpace(0)
  const staging = await stage(layout)
  try {
    const summary = await threads.run('copy', { staging, from, limits, keepFreeBytes }, { ...options, step })
    const digest = await options.digestOf(join(staging, 'root'))
    return { digest, summary, place: () => place(deps, { staging, tree: digest }, options), [Symbol.asyncDispose]: () => discard(staging) }
  } catch (error) {
    await discard(staging)
    throw error
  }
}

export async function verifyTree({ layout, threads, log }: TreesDeps, tree: Digest, options: SignOptions): Promise<'intact' | 'damaged'> {
  const problems = await threads.run('verify', { directory: layout.tree(tree) }, options)
  if (problems.length > 0) log.warn('tree damaged', { tree, problems })
  return problems.length === 0 ? 'intact' : 'damaged'
}

async function stage(layout: Layout): Promise<string> {
  const staging = join(layout.staging, newId())
  await mkdir(staging, { mode: 0o700 })
  return staging
}

async function discard(staging: string): Promise<void> {
  await rm(staging, { recursive: true, force: true })
}

async function place(
  { layout, threads, log, step }: TreesDeps,
  { staging, tree }: { readonly staging: string; readonly tree: Digest },
  options: BuildOptions,
): Promise<void> {
  await step('W.unpack.done')
  const directory = layout.tree(tree)
  if ((await fileSize(directory)) === null) await rename(staging, directory)
  else if (options.whenThere === 'mend' || (await readTree(layout, tree)) === null) {
    const mended = await threads.run('mend', { fresh: staging, directory }, signOptions(options))
    log.info('tree mended', { tree, mended })
  }
  await syncPath(layout.trees)
}

async function locate(layout: Layout, layer: TreeLayer): Promise<TreeLayer & { path: string; size: number }> {
  const path = layout.blob(layer.digest)
  const size = await fileSize(path)
  if (size === null) throw missing(layer.digest)
  return { ...layer, path, size }
}

/** An archive that can't be unpacked is the archive's fault, unless its bytes have changed since they were verified. */
async function findDamagedLayer(
  { layout, threads }: TreesDeps,
  { error, layers }: { readonly error: unknown; readonly layers: readonly TreeLayer[] },
  options: SignOptions,
): Promise<unknown> {
  if (failureOf(error).code !== 'integrity') return error
  for (const { digest } of layers) {
    const path = layout.blob(digest)
    const whole = threads.hash(path, signOptions(options))
    whole.grow((await fileSize(path)) ?? 0)
    whole.finish()
    if (`sha256:${await whole.result}` === digest) continue
    await rm(path, { force: true })
    return damagedBlob(digest, error)
  }
  return error
}

function missing(digest: Digest): FleetError {
  return new FleetError({ code: 'unavailable', retry: 'backoff', message: `the layer ${digest} is not in the store; it has to be fetched` })
}

function damagedBlob(digest: Digest, cause: unknown): FleetError {
  const message = `the layer ${digest} was damaged on this disk; it was removed and has to be fetched again`
  return new FleetError({ code: 'integrity', retry: 'backoff', message }, { cause })
}
