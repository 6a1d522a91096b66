// Files of models on nodes. Uploads are streamed to two nodes at once if possible, and added to the model's configuration. The
// load command of a node lists the model's files, each with the other nodes that have the same content.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { type Clock, type Log, mintGatewayToken } from '@muster/host'
import {
  Digest,
  type FailureCode,
  FleetError,
  gatewayPaths,
  gatewayScope,
  type ModelConfig,
  type ModelFile,
  type ModelName,
  type NodeId,
  StoredFile,
} from '@muster/protocol'
import { request } from 'undici'
import { z } from 'zod'
import type { FileHolder, FileHolderStore, UploadTarget } from '../store/inventory.ts'
import type { ModelStore } from '../store/models.ts'
import { checkConfig, revisionOf } from './config.ts'

export interface UploadDeps {
  readonly holders: Pick<FileHolderStore, 'uploadTargets'>
  readonly models: Pick<ModelStore, 'addUpload'>
  readonly controller: string
  readonly clock: Clock
  readonly log: Log
}

export interface Upload {
  readonly model: ModelName
  readonly filename: string
  readonly sizeBytes: number | null
  readonly body: AsyncIterable<Uint8Array>
  readonly signal: AbortSignal
}
export type ReceiveUpload = (upload: Upload) => Promise<FannedOut>

/** Two, so that one copy may be lost. */
const wantedCopies = 2

export function createReceiveUpload({ holders, models, controller, clock, log }: UploadDeps): ReceiveUpload {
  return async ({ model, filename, sizeBytes, body, signal }) => {
    const targets = await holders.uploadTargets({ limit: wantedCopies, sizeBytes: sizeBytes ?? 0 })
    if (targets.length === 0) throw noCapacity(sizeBytes)
    const sent = await fanOut(body, { model, targets, controller, sizeBytes, clock, signal })
    for (const { target, reason } of sent.failed) log.warn('node dropped from an upload', { model, filename, node: target.id, reason })
    const { digest, sizeBytes: size, kept } = sent
    const isThere = await models.addUpload({ model, filename, digest, size, nodes: kept.map(({ id }) => id) }, (config) => {
      const changed = withUpload(config, { filename, digest })
      return { config: changed, revision: revisionOf(changed) }
    })
    if (!isThere) throw new FleetError({ code: 'not_found', retry: 'never', message: `model ${model} was deleted while its file was sent` })
    return sent
  }
}

/** Replaces the file of this name, or adds it. */
function withUpload(config: ModelConfig, { filename, digest }: { filename: string; digest: string }): ModelConfig {
  const file = { uri: `upload:${digest}`, filename, sha256: digest.slice('sha256:'.length) }
  const isNamed = config.files.some((each) => each.filename === filename)
  const files = isNamed ? config.files.map((each) => (each.filename === filename ? file : each)) : [...config.files, file]
  return checkConfig({ ...config, files }, { name: config.name, lineOf: () => null })
}

const noCapacity = (sizeBytes: number | null): FleetError =>
  new FleetError({
    code: 'no_capacity',
    retry: 'backoff',
    message: `no healthy node with a gateway has room for ${sizeBytes === null ? 'the file' : `${sizeBytes} bytes`}; approve one, or free some disk`,
  })

// Streams to several gateways at once without storing anything on the controller. A gateway that fails or stalls is dropped; the
// upload continues while one is left.

interface FanOutDeps {
  /** The worker keeps the file as long as this model exists. */
  readonly model: ModelName
  readonly targets: readonly UploadTarget[]
  /** Named in the tokens. */
  readonly controller: string
  /** The announced size; null: unknown. */
  readonly sizeBytes: number | null
  readonly clock: Clock
  readonly signal: AbortSignal
}

interface FannedOut {
  readonly digest: Digest
  readonly sizeBytes: number
  /** Nodes that stored it. */
  readonly kept: readonly UploadTarget[]
  readonly failed: readonly Readonly<{ target: UploadTarget; code: FailureCode; reason: string }>[]
}

/** A gateway that accepts nothing for this long is dropped, because it delays the others. */
const maxStallMs = 30_000
/** A gateway stores the content before it answers. */
const answerWithinMs = 10 * 60_000

/** Throws FleetError with the reason of each gateway when none accepted the file. */
async function fanOut(body: AsyncIterable<Uint8Array>, deps: FanOutDeps): Promise<FannedOut> {
  const ending = new AbortController()
  const signal = AbortSignal.any([deps.signal, ending.signal])
  const copies = deps.targets.map((target) => createCopy(target, { ...deps, signal }))
  const hash = createHash('sha256')
  let sizeBytes = 0
  try {
    for await (const chunk of body) {
      hash.update(chunk)
      sizeBytes += chunk.byteLength
      await Promise.all(copies.map((copy) => copy.write(chunk)))
      if (!copies.some((copy) => copy.isOpen())) break
    }
    const digest = Digest.parse(`sha256:${hash.digest('hex')}`)
    const results = await Promise.all(copies.map((copy) => copy.end(digest)))
    return settle({ digest, sizeBytes }, results)
  } finally {
    // The client disconnected: the nodes receive nothing more.
    ending.abort()
  }
}

type Result = Readonly<{ target: UploadTarget } & ({ isKept: true } | { isKept: false; code: FailureCode; reason: string })>

function settle(file: Pick<FannedOut, 'digest' | 'sizeBytes'>, results: readonly Result[]): FannedOut {
  const kept = results.filter((result) => result.isKept).map(({ target }) => target)
  const failed = results.flatMap((result) => (result.isKept ? [] : [result]))
  if (kept.length > 0) return { ...file, kept, failed }
  const reasons = failed.map(({ target, reason }) => `${target.name}: ${reason}`).join('; ')
  const code = failed.every((each) => each.code === 'disk_full') ? 'disk_full' : 'unavailable'
  throw new FleetError({ code, retry: 'backoff', message: `no node could store the file: ${reasons}` })
}

function createCopy(target: UploadTarget, { model, controller, sizeBytes, clock, signal }: Omit<FanOutDeps, 'targets'>) {
  const stream = new PassThrough({ highWaterMark: 1024 * 1024 })
  stream.on('error', () => undefined) // The request reports the error.
  const done = new AbortController()
  const outcome = send(target, stream, { model, controller, sizeBytes, signal: AbortSignal.any([signal, done.signal]) }).catch(
    (error: unknown): Sent => ({ code: 'unavailable', reason: error instanceof Error ? error.message : String(error) }),
  )
  let given: Sent | null = null
  void outcome.then((sent) => {
    given = sent
    stream.destroy()
  })
  const giveUp = (): void => done.abort(new Error(`it accepted no data for ${maxStallMs / 1000} s`))
  return {
    isOpen: (): boolean => given === null,
    async write(chunk: Uint8Array): Promise<void> {
      if (given !== null || stream.write(chunk)) return
      await within(Promise.race([once(stream, 'drain'), outcome]), { ms: maxStallMs, clock, giveUp })
    },
    async end(digest: Digest): Promise<Result> {
      stream.end()
      const sent = (await within(outcome, { ms: answerWithinMs, clock, giveUp })) ?? (await outcome)
      if ('code' in sent) return { target, isKept: false, ...sent }
      if (sent.digest === digest) return { target, isKept: true }
      return { target, isKept: false, code: 'integrity', reason: `it has ${sent.digest}, and ${digest} was sent` }
    },
  }
}

async function within<T>(work: Promise<T>, { ms, clock, giveUp }: { ms: number; clock: Clock; giveUp: () => void }): Promise<T | null> {
  const done = new AbortController()
  const late = clock.sleep(ms, done.signal).then(
    () => {
      giveUp()
      return null
    },
    () => null,
  )
  try {
    return await Promise.race([work, late])
  } catch {
    return null // The stream was destroyed; the request reports the error.
  } finally {
    done.abort()
  }
}

type Sent = StoredFile | Readonly<{ code: FailureCode; reason: string }>

async function send(
  { id, gatewayUrl, gatewaySecret }: UploadTarget,
  body: PassThrough,
  { model, controller, sizeBytes, signal }: Pick<FanOutDeps, 'model' | 'controller' | 'sizeBytes' | 'signal'>,
): Promise<Sent> {
  const token = mintGatewayToken({ secret: gatewaySecret.reveal(), nodeId: id, scope: gatewayScope.upload, controller })
  const response = await request(`${gatewayUrl.replace(/\/+$/, '')}${gatewayPaths.upload}?model=${encodeURIComponent(model)}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}`, ...(sizeBytes === null ? {} : { 'content-length': String(sizeBytes) }) },
    body,
    signal,
    // This timeout would include the time of the upload.
    headersTimeout: 0,
    bodyTimeout: 60_000,
  })
  const text = await response.body.text()
  if (response.statusCode === 200) return StoredFile.parse(JSON.parse(text))
  const code = response.statusCode === 507 ? 'disk_full' : 'unavailable'
  return { code, reason: `its gateway answers ${response.statusCode}: ${messageIn(text)}` }
}

const Refusal = z.object({ error: z.object({ message: z.string() }) })

function messageIn(text: string): string {
  try {
    return Refusal.parse(JSON.parse(text)).error.message.slice(0, 500)
  } catch {
    return text.slice(0, 500)
  }
}

// Files for the load command of one node: each with the other nodes that have the same content, and the tokens for their gateways.

interface FilesForDeps {
  /** The node that loads the model. */
  readonly nodeId: NodeId
  /** Reachable nodes with their files. */
  readonly holders: readonly FileHolder[]
  /** Named in the tokens. */
  readonly controller: string
}

/** A worker tries this many before it uses the source. */
const maxPeers = 4
const uploadScheme = 'upload:sha256:'

type Files = Pick<ModelConfig, 'files'>

export function createFilesFor({ holders, controller }: { holders: Pick<FileHolderStore, 'list'>; controller: string }) {
  return async ({ files }: Files, nodeId: NodeId): Promise<ModelFile[]> => {
    const digests = files.flatMap((file) => digestOf(file) ?? [])
    return filesFor({ files }, { nodeId, holders: digests.length === 0 ? [] : await holders.list(digests), controller })
  }
}

/** Null: without a digest other nodes cannot be compared. */
function digestOf({ uri, sha256 }: ModelConfig['files'][number]): Digest | null {
  const hex = uri.startsWith(uploadScheme) ? uri.slice(uploadScheme.length) : sha256
  return hex === undefined ? null : Digest.parse(`sha256:${hex}`)
}

/** Pure. */
export function filesFor({ files }: Files, { nodeId, holders, controller }: FilesForDeps): ModelFile[] {
  return files.map((file) => {
    const digest = digestOf(file)
    if (digest === null) return file
    const having = holders.filter((holder) => holder.files.has(digest))
    const size = having[0]?.files.get(digest)
    const peers = having
      .filter(({ id, gatewayUrl }) => id !== nodeId && gatewayUrl !== '')
      .slice(0, maxPeers)
      .map(({ id, gatewayUrl, gatewaySecret }) => ({
        url: `${gatewayUrl.replace(/\/+$/, '')}${gatewayPaths.file(digest)}`,
        authorization: `Bearer ${mintGatewayToken({ secret: gatewaySecret.reveal(), nodeId: id, scope: gatewayScope.file(digest), controller })}`,
      }))
    return {
      ...file,
      sha256: digest.slice('sha256:'.length),
      ...(size === undefined ? {} : { size }),
      ...(peers.length === 0 ? {} : { peers }),
    }
  })
}
