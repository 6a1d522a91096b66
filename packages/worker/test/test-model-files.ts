// Model files in a temporary directory, with helpers for tests.
import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { resolveSettings, systemClock, type Clock } from '@muster/host'
import { FleetError, ModelName, type Digest, type Failure, type ModelFile } from '@muster/protocol'
import { digestOf, makeTempDir, type TempDir } from '@muster/testkit'
import type { WorkProgress } from '../src/work/reports.ts'
import { type ModelFiles, type ModelFilesOptions, openModelFiles, type StagedModel } from '../src/models/model-files.ts'
import { workerSettings } from '../src/settings.ts'
import { recordingLog, type RecordingLog } from './recording-log.ts'
import { sharedThreads } from './shared-threads.ts'

export interface TestModelFiles extends AsyncDisposable {
  readonly files: ModelFiles
  readonly root: string
  readonly temp: TempDir
  readonly log: RecordingLog
  readonly progress: WorkProgress[]
  signs(): number
  stage(model: string, files: readonly ModelFile[], options?: StageOptions): Promise<StagedModel>
  /** File names in a directory of the store. */
  names(directory: string): Promise<string[]>
  /** The same directory, as after a restart. */
  reopen(options?: TestOptions): Promise<TestModelFiles>
}

export interface StageOptions {
  readonly revision?: string
  readonly signal?: AbortSignal
}

export interface TestOptions {
  readonly flags?: Readonly<Record<string, string | readonly string[]>>
  readonly env?: Readonly<Record<string, string>>
  readonly clock?: Clock
  readonly root?: string
  readonly builtin?: ModelFilesOptions['builtin']
  readonly step?: (name: string) => void
  readonly keepFreeBytes?: number
}

export const never = new AbortController().signal

const noBuiltin: ModelFilesOptions['builtin'] = {
  references: () => [],
  images: {
    resolve: async () => Promise.reject(new Error('no controller')),
    resolveFile: async () => Promise.reject(new Error('no controller')),
    openBlob: async () => Promise.reject(new Error('no controller')),
  },
}

export async function makeTestModelFiles(options: TestOptions = {}): Promise<TestModelFiles> {
  return openIn(await makeTempDir('models'), options)
}

async function openIn(temp: TempDir, options: TestOptions): Promise<TestModelFiles> {
  const { clock = systemClock, builtin = noBuiltin, root = temp.path, keepFreeBytes = 0, step } = options
  const log = recordingLog()
  // All sources of these tests are on loopback.
  const settings = resolveSettings(workerSettings, { flags: { 'allow-source': ['127.0.0.1'], ...options.flags }, env: options.env ?? {} })
  const files = await openModelFiles({
    dataDir: { path: (name) => join(root, name) },
    settings,
    env: options.env,
    cluster: () => null,
    threads: sharedThreads,
    ...{ builtin, clock, log, keepFreeBytes },
    ...(step === undefined ? {} : { step }),
  })
  const progress: WorkProgress[] = []
  let signs = 0
  const store = join(root, 'models')
  return {
    files,
    root: store,
    temp,
    log,
    progress,
    signs: () => signs,
    stage: (model, wanted, { revision = 'r1', signal = never } = {}) =>
      files.stage(
        { model: ModelName.parse(model), revision, files: [...wanted] },
        { signal, onProgress: (each) => void progress.push(each), onSign: () => void signs++ },
      ),
    names: async (directory) => (await readdir(join(store, directory))).toSorted(),
    reopen: async (again = {}) => {
      await files.close()
      return openIn(temp, { ...options, ...again })
    },
    [Symbol.asyncDispose]: async () => {
      await files.close()
      await temp.remove()
    },
  }
}

export interface Content {
  readonly bytes: Buffer
  readonly digest: Digest
  readonly sha256: string
}

/** Unique content. */
export function contentOf(size: number): Content {
  const bytes = randomBytes(size)
  const digest = digestOf(bytes)
  return { bytes, digest, sha256: digest.slice('sha256:'.length) }
}

export const streamOf = (bytes: Buffer): Readable => Readable.from([bytes])

export async function bytesOf(
  files: ModelFiles,
  digest: Digest,
  range: { start: number; end: number } | null = null,
): Promise<Buffer | null> {
  const opened = await files.open(digest, range)
  return opened === null ? null : await buffer(opened.stream)
}

export async function failureOfStage(staging: Promise<unknown>): Promise<Failure> {
  const error = await staging.then(
    () => new Error('it was staged'),
    (thrown: unknown) => thrown,
  )
  if (error instanceof FleetError) return error.failure
  throw error
}
