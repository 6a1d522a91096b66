// The files of models on this machine: content by digest, each once, and a folder per model and revision that names them.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { type Clock, type DataDir, type Log, makeDirectory, type Step } from '@muster/host'
import {
  type Digest,
  FleetError,
  type LoadModel,
  type ModelName,
  type StoredFile,
  type WorkerSettings as ClusterSettings,
} from '@muster/protocol'
import { type FileOrigins, platformOf } from '@muster/source'
import type { BuiltinSource } from '../installer/builtin-source.ts'
import type { EffectiveSettings } from '../settings.ts'
import type { WorkProgress } from '../work/progress.ts'
import { createBlobs, type FetchDeps, fileSize } from '../storage/blobs.ts'
import { createSpaceCheck, withStorageFailures } from '../storage/disk-space.ts'
import { createClaims, createHolds, createSemaphore } from '../storage/locks.ts'
import { createThreads } from '../storage/threads.ts'
import { createOutboundClients } from '../outbound-clients.ts'
import { collectContent, type CollectContentDeps } from './collect-content.ts'
import { listContents, openContent, receiveContent } from './content.ts'
import { createFetchFile } from './fetch-file.ts'
import { createKnownSources } from './source-records.ts'
import { createModelFolders } from './folders.ts'
import { type ModelLayout, modelLayoutOf } from './layout.ts'
import { modelFileSettings, type ModelFileSettings } from './settings.ts'
import { createFindShared } from './shared-models.ts'
import { createStaging } from './stage.ts'

export type StageContext = Readonly<{
  onProgress: (progress: WorkProgress) => void
  /** Called on every sign of life that moves no byte. */
  onSign: () => void
  signal: AbortSignal
}>

/** Files in their place; they stay until it is disposed of, and as long as the model is not removed. */
export interface StagedModel extends Disposable {
  /** Holds every file under the name that its configuration gives it; nothing in it leads elsewhere. */
  readonly directory: string
}

export interface ModelFiles {
  /** Fetches what is missing, verifies, names. The same model and revision at once is done once. Throws FleetError. */
  stage(order: Pick<LoadModel, 'model' | 'revision' | 'files'>, context: StageContext): Promise<StagedModel>
  /** Its folders, of every revision, and content that nothing names any more. What is not there is done. */
  remove(model: ModelName): Promise<void>
  /** Complete and verified content, for the inventory. */
  contents(): Promise<readonly StoredFile[]>
  /** For other workers; `end` is the last byte of the range. Null when it is not here. */
  open(digest: Digest, range: { start: number; end: number } | null): Promise<{ size: number; stream: Readable } | null>
  size(digest: Digest): Promise<number | null>
  /** What is uploaded. Kept once it resolves: as long as its model is not removed; for a day when it is for none. */
  receive(bytes: Readable, about: { model?: ModelName; digest?: Digest; size?: number; signal: AbortSignal }): Promise<StoredFile>
  close(): Promise<void>
}

// The files of models, on this machine's disk:
//
//   incoming/<hex>, incoming/from-<hex>   bytes that are not verified yet; a next try continues them
//   blobs/sha256/<hex>                    verified content, each once, whichever models need it
//   by-model/<hex>/<hex>/files/…          a folder per model and revision: further names of that content; `record.json` beside it
//   uploads/<hex>                         what was uploaded, and when
//   known/<hex>                           what came last from a source that has no hash to hold it to
//   verified/<hex>                        what a file on a shared volume was when it was last read
//   staging/                              whatever is half done; emptied at every start

export interface ModelFilesOptions {
  readonly dataDir: Pick<DataDir, 'path'>
  readonly settings: Settings
  /** What the last session said; null before the first. */
  readonly cluster: () => ClusterSettings | null
  /** What controllers serve themselves. */
  readonly builtin: Pick<BuiltinSource, 'images' | 'references'>
  readonly step?: Step
  /** What is left for everybody else on this disk. */
  readonly keepFreeBytes?: number
  /** `contents` is another one now. */
  readonly onChanged?: () => void
  readonly clock: Clock
  readonly log: Log
}

type Settings = Pick<EffectiveSettings, 'allowSource' | 'dockerConfig' | keyof ModelFileSettings>

/** More than any file of a model has; a larger one is a lie or a mistake. */
const largestBytes = 4 * 1024 ** 4

export async function openModelFiles(options: ModelFilesOptions): Promise<ModelFiles> {
  const { clock, log, settings, cluster, builtin, step = () => undefined, keepFreeBytes = 256 * 1024 ** 2 } = options
  const layout = modelLayoutOf(options.dataDir.path('models'))
  await prepare(layout)
  const holds = createHolds()
  const threads = createThreads()
  const fetching: FetchDeps = { layout, threads, step, largestBytes, requireSpace: createSpaceCheck(layout.root, keepFreeBytes) }
  const claims = createClaims(holds)
  const blobs = createBlobs({ ...fetching, layout, claims })
  const folders = createModelFolders({ layout, clock })
  const fetchFile = createFetchFile({
    ...{ layout, blobs, fetching, holds, builtin, clock, log },
    known: createKnownSources(layout),
    waysOut: createOutboundClients({ cluster, allowSource: settings.allowSource, dockerConfig: settings.dockerConfig, clock, log }),
    origins: originsOf(settings),
    modelDir: settings.modelDir || null,
    platform: platformOf({ platform: process.platform, arch: process.arch }),
  })
  const findShared = settings.sharedModels === '' ? null : createFindShared({ directory: settings.sharedModels, layout, threads, log })
  const staging = createStaging({ layout, folders, fetchFile, findShared, step })
  const collecting = createSemaphore(1)
  const collect: CollectContentDeps = { layout, folders, holds, isFolderUsed: staging.isFolderUsed, clock, log, step }
  const closing = new AbortController()
  const tidy = (freed?: ReadonlySet<Digest>): Promise<void> =>
    collecting.run(closing.signal, () => withStorageFailures(collectContent(collect, freed)))
  // What a crash left; nobody waits for it.
  const tidied = tidy().catch((error: unknown) => log.warn('content of models was not cleaned up', { error }))
  const running = new Set<Promise<unknown>>()
  /** What runs when this is closed is called off, and waited for. */
  const run = async <T>(outer: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const begun = work(AbortSignal.any([outer, closing.signal]))
    running.add(begun)
    try {
      return await begun
    } finally {
      running.delete(begun)
      options.onChanged?.()
    }
  }
  return {
    stage: (order, context) => run(context.signal, (signal) => staging.stage(order, { ...context, signal })),
    remove: (model) => run(closing.signal, async () => await tidy(await withStorageFailures(staging.remove(model)))),
    contents: () => listContents(layout),
    size: (digest) => fileSize(layout.blob(digest)),
    open: (digest, range) => openContent(layout.blob(digest), range),
    receive: (bytes, about) =>
      run(about.signal, (signal) => receiveContent({ layout, fetching, holds, clock }, bytes, { ...about, signal })),
    close: async () => {
      closing.abort(new FleetError({ code: 'cancelled', retry: 'backoff', message: 'the worker is stopping' }))
      await Promise.allSettled([...running, tidied])
      await threads.close()
    },
  }
}

function originsOf(settings: ModelFileSettings): FileOrigins {
  const { hfEndpoint, hfToken, s3Endpoint, s3Region, s3AccessKeyId, s3SecretAccessKey, s3SessionToken } = settings
  const credentials =
    s3AccessKeyId === '' || s3SecretAccessKey === undefined
      ? null
      : { accessKeyId: s3AccessKeyId, secretAccessKey: s3SecretAccessKey, sessionToken: s3SessionToken ?? null }
  return {
    hf: { endpoint: hfEndpoint || modelFileSettings.hfEndpoint.default, token: hfToken ?? null },
    s3: { endpoint: s3Endpoint || null, region: s3Region || modelFileSettings.s3Region.default, credentials },
  }
}

async function prepare(layout: ModelLayout): Promise<void> {
  for (const directory of [
    layout.incoming,
    layout.blobs,
    layout.byModel,
    layout.uploads,
    layout.verifiedFiles,
    layout.knownSources,
    layout.staging,
  ])
    await makeDirectory(directory, { mode: 0o700 })
  for (const name of await readdir(layout.staging)) await rm(join(layout.staging, name), { recursive: true, force: true })
}

// The files of models on a node that has none: an agent.

const refuse = (): Promise<never> =>
  Promise.reject(new FleetError({ code: 'invalid', retry: 'never', message: 'this node keeps no model files' }))

export const noModelFiles: ModelFiles = {
  stage: refuse,
  remove: async () => undefined,
  contents: async () => [],
  open: async () => null,
  size: async () => null,
  receive: refuse,
  close: async () => undefined,
}
