// The backend store: verified blobs, the trees unpacked from them, and a record of the active version of each backend.
// design.md has the layout on disk and the steps of an install.
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { noStep, type Clock, type Log, type Step } from '@muster/host'
import { defaultUnpackLimits, FleetError, type BackendName, type Digest, type UnpackLimits } from '@muster/protocol'
import {
  type Activation,
  createActivations,
  createPulls,
  type InstalledRecord,
  layoutOf,
  prepareDirectories,
  type Pulls,
} from './records.ts'
import { type Blobs, createBlobs, type FetchOptions } from './blobs.ts'
import { type Claim, createClaim, createHolds, createKeyedLock, createSemaphore, type Holds, never } from './locks.ts'
import { collect, type CollectDeps, type GcReport } from './collect.ts'
import { freeBytes, createSpaceCheck, withStorageFailures } from './disk-space.ts'
import type { Threads } from './threads.ts'
import {
  copyTree,
  readCondition,
  readTree,
  unpackTree,
  verifyTree,
  type BuildOptions,
  type CopyOptions,
  type SignOptions,
  type TreeCondition,
  type TreesDeps,
} from './trees.ts'
import type { TreeLayer, TreeSummary } from './unpack/tree-manifest.ts'

export interface BackendStore extends Blobs {
  /** Keeps blobs and trees from being collected. Take it before `hasBlob`, `fetchBlob` and `unpack`, and for running processes. */
  hold: Holds['hold']
  /** Records the blobs that a tree needs, so that they survive this process and the collections after other installs. */
  beginPull: Pulls['begin']
  endPull: Pulls['end']
  endOtherPulls: Pulls['endOthers']
  /** Builds a tree from existing blobs. An existing tree is verified, and repaired if it is damaged. */
  unpack(tree: Digest, layers: readonly TreeLayer[], options: BuildOptions): Promise<TreeSummary>
  /** Copies a directory of this machine into a tree. */
  importDirectory(from: string, options: CopyOptions): Promise<{ readonly digest: Digest; readonly summary: TreeSummary }>
  /** Copies an archive of this machine into a blob. */
  importArchive(from: string, digest: Digest, options: FetchOptions): Promise<void>
  /** The directory to start a backend from; it exists once `unpack` or `importDirectory` has resolved. */
  treePath(tree: Digest): string
  summary(tree: Digest): Promise<TreeSummary | null>
  /** Reads every file. Damage is remembered until the tree is repaired, or verified as intact. */
  verify(tree: Digest, options: SignOptions): Promise<'intact' | 'damaged'>
  /** Compares kind, mode and size of every entry, and reads no file. */
  inspect(tree: Digest, options: SignOptions): Promise<'intact' | 'damaged'>
  /** The result of the last verification or inspection. */
  condition(tree: Digest): Promise<TreeCondition>
  /** Makes this version the active one and keeps the one before. */
  activate(record: InstalledRecord): Promise<void>
  /** False when it was not installed. The next `collect` removes its trees and blobs. */
  deactivate(name: BackendName): Promise<boolean>
  /** Stops keeping the previous version; false when there was none. */
  forgetPrevious(name: BackendName): Promise<boolean>
  get(name: BackendName): Promise<Activation | null>
  list(): Promise<readonly InstalledRecord[]>
  collect(signal: AbortSignal): Promise<GcReport>
  freeBytes(): Promise<number>
}

export interface BackendStoreOptions {
  /** A directory inside the data directory of the worker, whose lock the caller holds. */
  readonly root: string
  /** Shared with other stores of the worker; they outlive this one. */
  readonly threads: Threads
  readonly clock: Clock
  readonly log: Log
  readonly step?: Step | undefined
  readonly limits?: UnpackLimits
  /** Free space that the store leaves on this disk. */
  readonly keepFreeBytes?: number
  /** True: a download begins although it does not seem to fit; default: never. */
  readonly isDiskWarned?: () => boolean
}

export async function openBackendStore(options: BackendStoreOptions): Promise<BackendStore> {
  const { root, threads, clock, log, step = noStep, limits = defaultUnpackLimits, keepFreeBytes = 256 * 1024 ** 2 } = options
  const layout = layoutOf(root)
  await prepareDirectories([layout.incoming, layout.pulls, layout.blobs, layout.trees, layout.backends], layout.staging)
  const activations = createActivations({ layout, log, step })
  await activations.removeLeftovers()
  const holds = createHolds()
  const parts: Parts = {
    layout,
    threads,
    holds,
    claim: createClaim(holds),
    activations,
    pulls: createPulls({ layout, clock }),
    clock,
    log,
    step,
    limits,
    keepFreeBytes,
    requireSpace: createSpaceCheck(root, { keepFreeBytes, isWarning: options.isDiskWarned ?? (() => false), log }),
    damaged: new Set(),
  }
  const blobs = createBlobs({ ...parts, largestBytes: limits.bytes })
  const collecting = createSemaphore(1)
  return {
    hold: holds.hold,
    beginPull: (tree, needed) => withStorageFailures(parts.pulls.begin(tree, needed)),
    endPull: parts.pulls.end,
    endOtherPulls: parts.pulls.endOthers,
    ...blobs,
    importArchive: (from, digest, how) =>
      blobs.fetchBlob({ digest, size: null, open: async (offset) => ({ stream: createReadStream(from, { start: offset }), offset }) }, how),
    ...treesOf(parts),
    ...recordsOf(parts),
    collect: (signal) => collecting.run(signal, () => collect(parts, signal)),
    freeBytes: () => freeBytes(root),
  }
}

type Parts = TreesDeps & CollectDeps & { readonly claim: Claim }

type TreePart = Pick<BackendStore, 'unpack' | 'importDirectory' | 'treePath' | 'summary' | 'verify' | 'inspect' | 'condition'>

function treesOf(parts: Parts): TreePart {
  const { layout, claim } = parts
  return {
    unpack: (tree, layers, options) =>
      claim([tree, ...layers.map(({ digest }) => digest)], options, () =>
        withStorageFailures(unpackTree(parts, { tree, layers }, options)),
      ),
    importDirectory: async (from, options) => {
      await using staged = await withStorageFailures(copyTree(parts, from, options))
      await claim([staged.digest], options, () => withStorageFailures(staged.place()))
      return { digest: staged.digest, summary: staged.summary }
    },
    treePath: (tree) => join(layout.tree(tree), 'root'),
    summary: (tree) => readTree(layout, tree),
    verify: (tree, options) => claim([tree], options, () => verifyTree(parts, { tree, depth: 'content' }, options)),
    inspect: (tree, options) => claim([tree], options, () => verifyTree(parts, { tree, depth: 'entries' }, options)),
    condition: (tree) => readCondition(parts, tree),
  }
}

type RecordPart = Pick<BackendStore, 'activate' | 'deactivate' | 'forgetPrevious' | 'get' | 'list'>

function recordsOf({ layout, claim, activations }: Parts): RecordPart {
  const lock = createKeyedLock()
  const activate = async (record: InstalledRecord): Promise<void> => {
    if ((await readTree(layout, record.digest)) === null) throw notUnpacked(record)
    await activations.activate(record)
  }
  return {
    activate: (record) =>
      lock(record.name, never, () => claim([record.digest], { signal: never }, () => withStorageFailures(activate(record)))),
    deactivate: (name) => lock(name, never, () => withStorageFailures(activations.deactivate(name))),
    forgetPrevious: (name) => lock(name, never, () => withStorageFailures(activations.forgetPrevious(name))),
    get: activations.get,
    list: async () => (await activations.all()).found.map(({ current }) => current),
  }
}

function notUnpacked(record: InstalledRecord): FleetError {
  return new FleetError({
    code: 'internal',
    retry: 'backoff',
    message: `cannot activate ${record.name}: ${record.digest} is not unpacked`,
  })
}
