// Stages a model: fetches its files, several at a time, and links the verified content into a folder of the revision.
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ifMissing, inLanes, newId, type Step } from '@muster/host'
import { defaultUnpackLimits, type Digest, FleetError, type ModelName } from '@muster/protocol'
import type { WorkProgress } from '../work/reports.ts'
import { withStorageFailures } from '../storage/disk-space.ts'
import { createHolds, createKeyedLock, never } from '../storage/locks.ts'
import { digestsIn } from '../storage/records.ts'
import type { FetchFile } from './fetch-file.ts'
import type { Threads } from '../storage/threads.ts'
import { filesOf, type FolderRecord, type ModelFolders, type UnpackedTree } from './folders.ts'
import type { ModelLayout } from './layout.ts'
import type { ModelFiles, StageContext, StagedModel } from './model-files.ts'
import { createSharedWork } from './shared-work.ts'
import type { FindShared } from './shared-models.ts'
import { parseWantedFiles, type WantedFile } from './wanted-files.ts'

export interface StageDeps {
  readonly layout: ModelLayout
  readonly folders: ModelFolders
  readonly fetchFile: FetchFile
  /** Null without a shared volume. */
  readonly findShared: FindShared | null
  readonly threads: Threads
  readonly keepFreeBytes: number
  readonly step: Step
}

/** Enough to saturate a network link, few enough for the disk. */
const atOnce = 3

export function createStaging(deps: StageDeps) {
  const { layout, folders } = deps
  const shareWork = createSharedWork<string>()
  const lock = createKeyedLock()
  const usedFolders = createHolds<string>()
  const place: ModelFolders['place'] = (record, trees) => lock(record.model, never, () => withStorageFailures(folders.place(record, trees)))
  return {
    async stage(...[request, context]: Parameters<ModelFiles['stage']>): Promise<StagedModel> {
      const { model, revision } = request
      const files = parseWantedFiles(request.files)
      const path = layout.folder(model, revision)
      const inUse = usedFolders.hold([path])
      try {
        const key = JSON.stringify([model, revision, files.map(({ filename, uri, digest, unpack }) => [filename, uri, digest, unpack])])
        const directory = await shareWork(key, context, (shared) => stageFiles({ ...deps, place }, { model, revision, files }, shared))
        return { directory, ...inUse }
      } catch (error) {
        inUse[Symbol.dispose]()
        throw error
      }
    },
    /** Removes the folders of a model and returns the content that they named. */
    remove: (model: ModelName): Promise<ReadonlySet<Digest>> =>
      lock(model, never, async () => {
        const { found } = await folders.list(model)
        const uploads = layout.uploadsFor(model)
        const uploaded = await digestsIn(uploads).catch(ifMissing<Digest[]>([]))
        await folders.removeModel(model)
        await rm(uploads, { recursive: true, force: true })
        return new Set([...uploaded, ...found.flatMap(({ record }) => record.files.map(({ digest }) => digest))])
      }),
    isFolderUsed: usedFolders.isHeld,
  }
}

type StageFilesDeps = StageDeps & Pick<ModelFolders, 'place'>
type StageRequest = Readonly<{ model: ModelName; revision: string; files: readonly WantedFile[] }>

/** Returns the directory with the files. */
async function stageFiles(deps: StageFilesDeps, { model, revision, files }: StageRequest, context: StageContext): Promise<string> {
  const { layout, folders, fetchFile, findShared, place, step } = deps
  const directory = filesOf(layout.folder(model, revision))
  const there = await withStorageFailures(folders.find(model, revision))
  if (there !== null && hasSameFiles(there, files)) return directory
  context.onProgress({ phase: 'resolving' })
  // The volume may have the archive without its content.
  const isPacked = files.some(({ unpack }) => unpack)
  const shared = isPacked ? null : ((await findShared?.(model, files, context)) ?? null)
  if (shared !== null) return shared
  using held = new DisposableStack()
  const progressOf = createStageProgress(files.length, context.onProgress)
  const fetched = await inLanes(files, { atOnce, signal: context.signal }, (file, { signal }) =>
    fetchFile(file, { ...progressOf(file.filename), signal, onSign: context.onSign, held }),
  )
  await step('W.stage.fetched')
  context.signal.throwIfAborted()
  const placed = files.flatMap((file, at) => (fetched[at] === undefined ? [] : [{ ...file, ...fetched[at] }]))
  await using unpacked = await unpackArchives(
    deps,
    placed.filter(({ unpack }) => unpack),
    context,
  )
  const record = { model, revision, files: placed.map(({ filename, digest, size }) => ({ filename, digest, size })) }
  await place({ ...record, unpacked: unpacked.files }, unpacked.trees)
  await step('W.stage.named')
  return directory
}

interface UnpackedArchives extends AsyncDisposable {
  readonly files: FolderRecord['unpacked']
  readonly trees: readonly UnpackedTree[]
}

/** Unpacks verified archives in staging, one after the other. */
async function unpackArchives(
  { layout, threads, keepFreeBytes, step }: StageDeps,
  archives: readonly Readonly<{ filename: string; digest: Digest; size: number }>[],
  { onProgress, onSign, signal }: StageContext,
): Promise<UnpackedArchives> {
  const staging = join(layout.staging, newId())
  const remove = (): Promise<void> => rm(staging, { recursive: true, force: true })
  const unpacked: { files: FolderRecord['unpacked']; trees: UnpackedTree[] } = { files: [], trees: [] }
  try {
    for (const [index, { filename, digest, size }] of archives.entries()) {
      const at = join(staging, String(index))
      await mkdir(at, { recursive: true, mode: 0o700 })
      const job = { path: layout.blob(digest), size, staging: at, limits: defaultUnpackLimits, keepFreeBytes }
      const progress = (current: number, total: number): void => onProgress({ phase: 'extracting', fileName: filename, current, total })
      const found = await threads.run('archive', job, { signal, onSign, onProgress: progress, step }).catch((error: unknown) => {
        throw named(filename, error)
      })
      const folder = filename.split('/').slice(0, -1).join('/')
      unpacked.files.push(...found.map((file) => ({ filename: folder === '' ? file.path : `${folder}/${file.path}`, size: file.size })))
      unpacked.trees.push({ archive: filename, root: join(at, 'root'), folder })
    }
  } catch (error) {
    await remove()
    throw error
  }
  return { ...unpacked, [Symbol.asyncDispose]: remove }
}

function named(filename: string, error: unknown): unknown {
  return error instanceof FleetError
    ? new FleetError({ ...error.failure, message: `${filename}: ${error.failure.message}`.slice(0, 4000) }, { cause: error })
    : error
}

/** A revision always has the same files; the check is cheap. */
function hasSameFiles({ files }: FolderRecord, wanted: readonly WantedFile[]): boolean {
  const digests = new Map(files.map(({ filename, digest }) => [filename, digest]))
  return (
    files.length === wanted.length &&
    wanted.every(({ filename, digest }) => digests.has(filename) && (digest ?? digests.get(filename)) === digests.get(filename))
  )
}

interface FileProgress {
  onBytes(bytes: number): void
  onSize(bytes: number): void
}

/** Sums up the progress of all files. Without a total until every size is known, because a bar must not go back. */
function createStageProgress(files: number, onProgress: (progress: WorkProgress) => void): (filename: string) => FileProgress {
  const have = new Map<string, number>()
  const sizes = new Map<string, number>()
  const sum = (numbers: Map<string, number>): number => numbers.values().reduce((all, each) => all + each, 0)
  return (filename) => ({
    onSize: (bytes) => void sizes.set(filename, bytes),
    onBytes(bytes) {
      have.set(filename, bytes)
      const current = sum(have)
      const total = sizes.size === files ? Math.max(sum(sizes), current) : 0
      onProgress({ phase: 'downloading', fileName: filename, current, total })
    },
  })
}
