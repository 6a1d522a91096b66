// The files of models on this machine: content by digest, and a folder per model and revision that links to it.
//
//   incoming/<hex>, incoming/from-<hex>   unverified bytes; the next try continues them
//   blobs/sha256/<hex>                    verified content, each once
//   by-model/<hex>/<hex>/files/…          a folder per model and revision: hard links to blobs, and files that came out of
//                                         archives; `record.json` beside it lists both
//   uploads/<hex>                         marks uploaded content; its mtime is the time of the upload
//   known/<hex>                           content last fetched from a source without a hash
//   verified/<hex>                        hash of a file on a shared volume
//   staging/                              unfinished work; emptied at every start

import type { Readable } from 'node:stream'
import { noStep, type Clock, type DataDir, type Log, type Step } from '@muster/host'
import {
  type Digest,
  FleetError,
  type LoadModel,
  type ModelName,
  type StoredFile,
  type WorkerSettings as ClusterSettings,
} from '@muster/protocol'
import { type FileOrigins, platformOf, type SourceSettings } from '@muster/source'
import type { EffectiveSettings } from '../settings.ts'
import type { WorkProgress } from '../work/reports.ts'
import { createBlobs, type FetchDeps, fileSize } from '../storage/blobs.ts'
import { createSpaceCheck, withStorageFailures } from '../storage/disk-space.ts'
import { createClaim, createHolds, createSemaphore } from '../storage/locks.ts'
import { prepareDirectories } from '../storage/records.ts'
import type { Threads } from '../storage/threads.ts'
import { createOutboundClients } from '../outbound-clients.ts'
import { collectContent, type CollectContentDeps } from './collect.ts'
import { listContents, openContent, receiveContent } from './content.ts'
import { createFetchFile } from './fetch-file.ts'
import { createFileFacts, type FileReport } from './file-facts.ts'
import { createKnownSources } from './source-records.ts'
import { createModelFolders } from './folders.ts'
import { modelLayoutOf } from './layout.ts'
import type { OriginDeps } from './origins.ts'
import { modelFileSettings, type ModelFileSettings } from './settings.ts'
import { createFindShared } from './shared-models.ts'
import { createStaging } from './stage.ts'

export type StageContext = Readonly<{
  onProgress: (progress: WorkProgress) => void
  /** Called on every sign of life that moves no byte. */
  onSign: () => void
  signal: AbortSignal
}>

/** The files of a model, kept until it is disposed or the model is removed. */
export interface StagedModel extends Disposable {
  /** Contains every file under its configured name, and no links to other places. */
  readonly directory: string
}

export interface ModelFiles {
  /** Fetches missing files, verifies them and links them. Concurrent calls for one model and revision share the work. Throws FleetError. */
  stage(request: Pick<LoadModel, 'model' | 'revision' | 'files'>, context: StageContext): Promise<StagedModel>
  /** Removes the model's folders of every revision, and content that no folder names anymore. Idempotent. */
  remove(model: ModelName): Promise<void>
  /** Verified content, for the inventory. */
  contents(): Promise<readonly StoredFile[]>
  /** Facts about these contents, as far as they are known; `onChanged` follows when more are. */
  facts(contents: readonly StoredFile[]): Promise<FileReport>
  /** For other workers; `end` is the last byte of the range. Null when the content is not stored. */
  open(digest: Digest, range: { start: number; end: number } | null): Promise<{ size: number; stream: Readable } | null>
  size(digest: Digest): Promise<number | null>
  /** Stores an upload: until its model is removed, or for a day without a model. */
  receive(bytes: Readable, upload: { model?: ModelName; digest?: Digest; size?: number; signal: AbortSignal }): Promise<StoredFile>
  close(): Promise<void>
}

export interface ModelFilesOptions {
  readonly dataDir: Pick<DataDir, 'path'>
  /** Shared with the store of backends. */
  readonly threads: Threads
  readonly settings: Settings
  /** Settings of the cluster; null before the first session. */
  readonly cluster: () => ClusterSettings | null
  /** Content served by the controllers. */
  readonly builtin: OriginDeps['builtin']
  /** For secrets that the credentials file takes from the environment. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  readonly step?: Step | undefined
  /** Free space that the store leaves on this disk. */
  readonly keepFreeBytes?: number
  /** Called when `contents` may have changed. */
  readonly onChanged?: () => void
  readonly clock: Clock
  readonly log: Log
}

type Settings = Pick<EffectiveSettings, 'allowSource' | keyof SourceSettings | keyof ModelFileSettings>

/** Larger than any model file. */
const largestBytes = 4 * 1024 ** 4

export async function openModelFiles(options: ModelFilesOptions): Promise<ModelFiles> {
  const { threads, clock, log, settings, cluster, builtin, step = noStep, keepFreeBytes = 256 * 1024 ** 2 } = options
  const layout = modelLayoutOf(options.dataDir.path('models'))
  const { incoming, byModel, uploads, verifiedFiles, knownSources, facts } = layout
  await prepareDirectories([incoming, layout.blobs, byModel, uploads, verifiedFiles, knownSources, facts], layout.staging)
  const holds = createHolds()
  const requireSpace = createSpaceCheck(layout.root, { keepFreeBytes, isWarning: () => cluster()?.disk_check === 'warn', log })
  const fetching: FetchDeps = { layout, threads, step, largestBytes, requireSpace }
  const blobs = createBlobs({ ...fetching, layout, claim: createClaim(holds) })
  const folders = createModelFolders({ layout, clock })
  const fetchFile = createFetchFile({
    ...{ layout, blobs, fetching, holds, builtin, clock, log },
    knownSources: createKnownSources(layout),
    outboundClients: createOutboundClients({ cluster, settings, env: options.env ?? {}, clock, log }),
    origins: originsOf(settings),
    modelDir: settings.modelDir || null,
    platform: platformOf({ platform: process.platform, arch: process.arch }),
  })
  const findShared = settings.sharedModels === '' ? null : createFindShared({ directory: settings.sharedModels, layout, threads, log })
  const staging = createStaging({ layout, folders, fetchFile, findShared, threads, keepFreeBytes, step })
  const collecting = createSemaphore(1)
  const collect: CollectContentDeps = { layout, folders, holds, isFolderUsed: staging.isFolderUsed, clock, log, step }
  const closing = new AbortController()
  const runCollection = (freed?: ReadonlySet<Digest>): Promise<void> =>
    collecting.run(closing.signal, () => withStorageFailures(collectContent(collect, freed)))
  // Removes the leftovers of a crash in the background.
  const firstCollection = runCollection().catch((error: unknown) => log.warn('cannot collect unused model files', { error }))
  const fileFacts = createFileFacts({ layout, folders, onChanged: () => options.onChanged?.(), clock, log })
  const readingFacts = fileFacts.run(closing.signal)
  const running = new Set<Promise<unknown>>()
  /** `close` aborts running work and waits for it. */
  const run = async <T>(outer: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const result = work(AbortSignal.any([outer, closing.signal]))
    running.add(result)
    try {
      return await result
    } finally {
      running.delete(result)
      options.onChanged?.()
    }
  }
  return {
    stage: (request, context) => run(context.signal, (signal) => staging.stage(request, { ...context, signal })),
    remove: (model) => run(closing.signal, async () => await runCollection(await withStorageFailures(staging.remove(model)))),
    contents: () => listContents(layout),
    facts: fileFacts.report,
    size: (digest) => fileSize(layout.blob(digest)),
    open: (digest, range) => openContent(layout.blob(digest), range),
    receive: (bytes, upload) =>
      run(upload.signal, (signal) => receiveContent({ layout, fetching, holds, clock }, bytes, { ...upload, signal })),
    close: async () => {
      closing.abort(new FleetError({ code: 'cancelled', retry: 'backoff', message: 'the worker is stopping' }))
      await Promise.allSettled([...running, firstCollection, readingFacts])
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

const refuse = (): Promise<never> =>
  Promise.reject(new FleetError({ code: 'invalid', retry: 'never', message: 'this node stores no model files' }))

/** For an agent node, which stores no model files. */
export const noModelFiles: ModelFiles = {
  stage: refuse,
  remove: async () => undefined,
  contents: async () => [],
  facts: async () => ({ file_facts: [], named_files: [] }),
  open: async () => null,
  size: async () => null,
  receive: refuse,
  close: async () => undefined,
}
