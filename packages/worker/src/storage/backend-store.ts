// What is installed on a worker, on its disk: verified blobs, the trees unpacked from them, and which tree is the one in
// use of each backend. Downloads come from source, when to install what is decided in operations.
//
//   incoming/<hex>              bytes of a blob that are not verified yet; a next try continues them
//   pulls/<hex>                 which blobs the tree of that name is going to be made of, while it is not there yet
//   blobs/sha256/<hex>          verified blobs, each once, whoever needs it
//   trees/sha256/<hex>/root     what backends are started from; `manifest` beside it lists every file with its hash
//   backends/<name>/current     the record of the version in use and of the one before
//   staging/                    whatever is half done; emptied at every start
import { readdir, rm } from 'node:fs/promises'
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { makeDirectory, type Clock, type Log } from '@muster/host'
import { defaultUnpackLimits, FleetError, type BackendName, type Digest, type UnpackLimits } from '@muster/protocol'
import { type Activation, createActivations, createPulls, type InstalledRecord, type Pulls } from './records.ts'
import { type Blobs, createBlobs, type FetchOptions } from './blobs.ts'
import { type Claims, claimWithSigns, createClaims, createHolds, createKeyedLocks, createSemaphore, type Holds } from './locks.ts'
import { collect, type CollectDeps, type GcReport } from './collect.ts'
import { freeBytes, createSpaceCheck, withStorageFailures } from './disk-space.ts'
import { layoutOf, type Layout } from './layout.ts'
import { createThreads } from './threads.ts'
import {
  copyTree,
  readTree,
  unpackTree,
  verifyTree,
  type BuildOptions,
  type CopyOptions,
  type SignOptions,
  type TreesDeps,
} from './trees.ts'
import type { TreeLayer, TreeSummary } from './unpack/tree-manifest.ts'

export interface BackendStore extends Blobs, AsyncDisposable {
  /** Keeps blobs and trees from being collected. Take it before `hasBlob`, `fetchBlob` and `unpack`, and for running processes. */
  hold: Holds['hold']
  /** Says which blobs a tree needs, so that they outlive this process and the ends of other installs. */
  beginPull: Pulls['begin']
  endPull: Pulls['end']
  endOtherPulls: Pulls['endOthers']
  /** Makes a tree of blobs that are there. With `mend` also when it exists: what differs is put right in place. */
  unpack(tree: Digest, layers: readonly TreeLayer[], options: BuildOptions): Promise<TreeSummary>
  /** A directory of this machine. `digestOf` gets the private copy that was made of it. */
  importDirectory(from: string, options: CopyOptions): Promise<{ readonly digest: Digest; readonly summary: TreeSummary }>
  /** An archive of this machine, by its sha256, becomes a blob. */
  importArchive(from: string, digest: Digest, options: FetchOptions): Promise<void>
  /** Where to start a backend from; it exists once `unpack` or `importDirectory` has ended. */
  treePath(tree: Digest): string
  summary(tree: Digest): Promise<TreeSummary | null>
  verify(tree: Digest, options: SignOptions): Promise<'intact' | 'damaged'>
  /** From now on this version is the one in use; the one before is kept. */
  activate(record: InstalledRecord): Promise<void>
  /** False when it was not installed. What it used goes with the next `collect`. */
  deactivate(name: BackendName): Promise<boolean>
  /** The version before is not kept any longer; false when there was none. */
  forgetPrevious(name: BackendName): Promise<boolean>
  get(name: BackendName): Promise<Activation | null>
  list(): Promise<readonly InstalledRecord[]>
  collect(signal: AbortSignal): Promise<GcReport>
  freeBytes(): Promise<number>
  close(): Promise<void>
}

export interface BackendStoreOptions {
  /** In the data directory of the worker, whose lock the caller holds. */
  readonly root: string
  readonly clock: Clock
  readonly log: Log
  readonly step?: (name: string) => Promise<void> | void
  readonly limits?: UnpackLimits
  /** What is left for everybody else on this disk. */
  readonly keepFreeBytes?: number
}

export async function openBackendStore(options: BackendStoreOptions): Promise<BackendStore> {
  const { root, clock, log, step = () => {}, limits = defaultUnpackLimits, keepFreeBytes = 256 * 1024 ** 2 } = options
  const layout = layoutOf(root)
  await prepare(layout)
  const activations = createActivations({ layout, log, step })
  await activations.removeLeftovers()
  const holds = createHolds()
  const parts: Parts = {
    layout,
    threads: createThreads(),
    holds,
    claims: createClaims(holds),
    activations,
    pulls: createPulls({ layout, clock }),
    clock,
    log,
    step,
    limits,
    keepFreeBytes,
    requireSpace: createSpaceCheck(root, keepFreeBytes),
  }
  const blobs = createBlobs({ ...parts, largestBytes: limits.bytes })
  const collecting = createSemaphore(1)
  const close = (): Promise<void> => parts.threads.close()
  return {
    hold: holds.hold,
    beginPull: parts.pulls.begin,
    endPull: parts.pulls.end,
    endOtherPulls: parts.pulls.endOthers,
    ...blobs,
    importArchive: (from, digest, how) =>
      blobs.fetchBlob({ digest, size: null, open: async (offset) => ({ stream: createReadStream(from, { start: offset }), offset }) }, how),
    ...treesOf(parts),
    ...recordsOf(parts),
    collect: (signal) => collecting.run(signal, () => collect(parts, signal)),
    freeBytes: () => freeBytes(root),
    close,
    [Symbol.asyncDispose]: close,
  }
}

type Parts = TreesDeps & CollectDeps & { readonly claims: Claims }

/** For what is too short to be cancelled. */
const never = new AbortController().signal

type TreePart = Pick<BackendStore, 'unpack' | 'importDirectory' | 'treePath' | 'summary' | 'verify'>

function treesOf(parts: Parts): TreePart {
  const { layout, claims } = parts
  const claim = claimWithSigns(claims)
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
    verify: (tree, options) => claim([tree], options, () => verifyTree(parts, tree, options)),
  }
}

type RecordPart = Pick<BackendStore, 'activate' | 'deactivate' | 'forgetPrevious' | 'get' | 'list'>

function recordsOf({ layout, claims, activations }: Parts): RecordPart {
  const names = createKeyedLocks()
  const activate = async (record: InstalledRecord): Promise<void> => {
    if ((await readTree(layout, record.digest)) === null) throw notUnpacked(record)
    await activations.activate(record)
  }
  return {
    activate: (record) =>
      names.run(record.name, never, () => claims.claim([record.digest], never, () => withStorageFailures(activate(record)))),
    deactivate: (name) => names.run(name, never, () => withStorageFailures(activations.deactivate(name))),
    forgetPrevious: (name) => names.run(name, never, () => withStorageFailures(activations.forgetPrevious(name))),
    get: activations.get,
    list: async () => (await activations.all()).found.map(({ current }) => current),
  }
}

async function prepare(layout: Layout): Promise<void> {
  for (const directory of [layout.incoming, layout.pulls, layout.blobs, layout.trees, layout.backends, layout.staging])
    await makeDirectory(directory, { mode: 0o700 })
  for (const name of await readdir(layout.staging)) await rm(join(layout.staging, name), { recursive: true, force: true })
}

function notUnpacked(record: InstalledRecord): FleetError {
  return new FleetError({
    code: 'internal',
    retry: 'backoff',
    message: `${record.name} can't be activated: ${record.digest} is not unpacked`,
  })
}
