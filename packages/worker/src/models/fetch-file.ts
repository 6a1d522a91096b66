// Fetches one file of a model: not at all when it is stored, from other workers first, from its source last.
import type { Clock, Log } from '@muster/host'
import { failureOf, FleetError, type Digest, type Failure } from '@muster/protocol'
import { tryMirrors } from '../storage/mirrors.ts'
import { type Blobs, type BlobSource, downloadBlob, type FetchDeps, type FetchedBlob, fileSize } from '../storage/blobs.ts'
import { fetchFailureOf, withStorageFailures } from '../storage/disk-space.ts'
import type { Holds } from '../storage/locks.ts'
import { withSigns } from '../storage/signs.ts'
import { type FileOrigin, findOrigin, openPeerFile, type OriginDeps } from './origins.ts'
import type { ModelLayout } from './layout.ts'
import { createSharedWork } from './shared-work.ts'
import { finishPartial, type KnownSources, resumeDownload } from './source-records.ts'
import type { WantedFile } from './wanted-files.ts'

export interface FetchFileDeps extends OriginDeps {
  readonly layout: ModelLayout
  readonly blobs: Blobs
  readonly fetching: FetchDeps
  readonly holds: Holds
  readonly knownSources: KnownSources
  readonly clock: Clock
  readonly log: Log
}

export interface FileContext {
  readonly signal: AbortSignal
  readonly onBytes: (bytes: number) => void
  readonly onSize: (bytes: number) => void
  readonly onSign: () => void
  /** Receives the holds on fetched content. */
  readonly held: DisposableStack
}

export type FetchFile = (file: WantedFile, context: FileContext) => Promise<FetchedBlob>

export function createFetchFile(deps: FetchFileDeps): FetchFile {
  const shareWork = createSharedWork<FetchedBlob>()
  return async (file, context) => {
    if (file.size !== null) context.onSize(file.size)
    try {
      if (file.digest !== null) return await fetchByDigest(deps, { ...file, digest: file.digest }, context)
      const origin = await withSigns(context.onSign, () => findOrigin(deps, file, context.signal))
      if (origin.digest !== null) return await fetchByDigest(deps, { ...file, digest: origin.digest, origin }, context)
      const { onBytes, onSign, signal } = context
      const shared = { signal, onSign, onProgress: ({ current = 0, total = 0 }) => (total > 0 && context.onSize(total), onBytes(current)) }
      const fetched = await shareWork(file.uri, shared, ({ onProgress, ...rest }) => {
        const progress = { current: 0, total: 0 }
        const report = (change: Partial<typeof progress>): void => onProgress({ phase: 'downloading', ...Object.assign(progress, change) })
        return fetchByUri(
          deps,
          { file, origin },
          { ...rest, onBytes: (current) => report({ current }), onSize: (total) => report({ total }) },
        )
      })
      context.held.use(deps.holds.hold([fetched.digest]))
      return fetched
    } catch (error) {
      context.signal.throwIfAborted()
      throw withFilename(file, error)
    }
  }
}

type IdentifiedFile = WantedFile & Readonly<{ digest: Digest; origin?: FileOrigin }>

async function fetchByDigest(deps: FetchFileDeps, file: IdentifiedFile, context: FileContext): Promise<FetchedBlob> {
  const { digest } = file
  const { layout, holds, log } = deps
  context.held.use(holds.hold([digest]))
  const path = layout.blob(digest)
  const existing = await fileSize(path)
  if (existing === null) {
    const failures = await fetchFromPeers(deps, file, context)
    if (failures !== null)
      await fetchFromOrigin(deps, file, context).catch((error: unknown) => {
        if (failures.length > 0)
          log.info('cannot fetch a model file from other workers', { file: file.filename, digest, reasons: failures })
        throw failures.length === 0 ? error : withPeerReasons(error, failures)
      })
  }
  const size = existing ?? (await fileSize(path)) ?? 0
  context.onSize(size)
  context.onBytes(size)
  return { digest, size }
}

/** Null when a peer sent the file; otherwise the failures of all peers. */
async function fetchFromPeers(deps: FetchFileDeps, file: IdentifiedFile, context: FileContext): Promise<readonly string[] | null> {
  const reasons: string[] = []
  for (const peer of file.peers) {
    try {
      await fetchFrom(
        deps,
        file,
        { mirrors: [(offset) => openPeerFile(peer, { digest: file.digest, offset, clock: deps.clock, signal: context.signal })] },
        context,
      )
      return null
    } catch (error) {
      context.signal.throwIfAborted()
      const { code, message } = failureOf(error)
      // Another peer does not help with a full disk.
      if (!['unavailable', 'integrity', 'not_found', 'invalid'].includes(code)) throw error
      reasons.push(message)
    }
  }
  return reasons
}

async function fetchFromOrigin(deps: FetchFileDeps, file: IdentifiedFile, context: FileContext): Promise<void> {
  const origin = file.origin ?? (await withSigns(context.onSign, () => findOrigin(deps, file, context.signal)))
  if (origin.digest !== null && origin.digest !== file.digest)
    throw new FleetError({ code: 'integrity', retry: 'never', message: `its source has ${origin.digest}; expected ${file.digest}` })
  // The hash identifies the content, so no validator is needed.
  const mirrors = origin.mirrors.map((open) => (offset: number) => open({ offset, validator: null }))
  await fetchFrom(deps, file, { mirrors, size: origin.size }, context)
}

async function fetchFrom(
  { blobs, clock }: FetchFileDeps,
  file: IdentifiedFile,
  { mirrors, size: announced }: { mirrors: readonly ((offset: number) => Promise<BlobSource>)[]; size?: number | null },
  context: FileContext,
): Promise<void> {
  const { digest } = file
  await tryMirrors({
    mirrors: mirrors.map((open) => reportSize(context, open)),
    incomingSize: () => blobs.incomingSize(digest),
    fetch: (open) => blobs.fetchBlob({ digest, size: file.size ?? announced ?? null, open }, context),
    clock,
    signal: context.signal,
  })
}

/** Without a digest: any content of the source is accepted. */
async function fetchByUri(
  { layout, fetching, holds, knownSources, clock }: FetchFileDeps,
  { file, origin }: { readonly file: WantedFile; readonly origin: FileOrigin },
  context: Omit<FileContext, 'held'>,
): Promise<FetchedBlob> {
  const incoming = layout.incomingOf(file.uri)
  using held = new DisposableStack()
  const hold = (digest: Digest): void => void held.use(holds.hold([digest]))
  const existing = await withSigns(context.onSign, () => knownSources.find(file.uri, origin, hold))
  if (existing !== null) {
    context.onSize(existing.size)
    context.onBytes(existing.size)
    return existing
  }
  const deps: FetchDeps = { ...fetching, onDigest: hold }
  const fetched = await tryMirrors({
    mirrors: origin.mirrors.map((open) => reportSize(context, (have) => resumeDownload(open, incoming, have))),
    incomingSize: async () => (await fileSize(incoming)) ?? 0,
    fetch: (open) =>
      withStorageFailures(
        downloadBlob(deps, { digest: null, incoming, name: file.filename, size: file.size ?? origin.size, open }, context),
      ),
    clock,
    signal: context.signal,
  })
  await knownSources.record(file.uri, await finishPartial(incoming), fetched)
  return fetched
}

type SizeContext = Pick<FileContext, 'onSize' | 'onSign'>

/** Sends signs of life while a server delays its response, and reports the announced size. */
function reportSize(context: SizeContext, open: (offset: number) => Promise<BlobSource>): (offset: number) => Promise<BlobSource> {
  return async (offset) => {
    const opened = await withSigns(context.onSign, () => open(offset))
    if (typeof opened.size === 'number') context.onSize(opened.size)
    return opened
  }
}

function withPeerReasons(error: unknown, reasons: readonly string[]): FleetError {
  const failure = failureOf(error)
  return new FleetError(
    { ...failure, message: `${failure.message}; other workers: ${reasons.join('; ')}`.slice(0, 4000) },
    { cause: error },
  )
}

/** Wrong content is not retried: the configuration, or its source, must be corrected. */
function withFilename({ filename }: WantedFile, error: unknown): FleetError {
  const failure: Failure = fetchFailureOf(error, 'files')
  const retry = failure.code === 'integrity' ? 'never' : failure.retry
  return new FleetError({ ...failure, retry, message: `${filename}: ${failure.message}`.slice(0, 8000) }, { cause: error })
}
