// Sources of model files: the configured source of any kind, a file on this machine, and the gateway of another worker.
import { constants } from 'node:fs'
import { open as openFile, realpath } from 'node:fs/promises'
import { sep } from 'node:path'
import { type Clock, errorCode, errorMessage } from '@muster/host'
import { type Digest, FleetError, type ModelFile, unreachable } from '@muster/protocol'
import {
  type FileOrigins,
  locateFile,
  type OciClient,
  openAtOffset,
  type OpenedStream,
  type OutboundResponse,
  type Platform,
} from '@muster/source'
import { openStream } from '../controllers/http-request.ts'
import type { BuiltinSource } from '../installer/builtin-source.ts'
import type { OutboundClients } from '../outbound-clients.ts'
import type { WantedFile } from './wanted-files.ts'

/** `validator` identifies the content that the first `offset` bytes belong to; null when unknown or not needed. */
export type OpenOrigin = (at: { readonly offset: number; readonly validator: string | null }) => Promise<OpenedStream>

export interface FileOrigin {
  /** Known before the fetch when the source announces it. */
  readonly digest: Digest | null
  readonly size: number | null
  /** Sources of the same content, tried in this order. */
  readonly mirrors: readonly OpenOrigin[]
}

export interface OriginDeps {
  readonly outboundClients: () => OutboundClients
  readonly builtin: Pick<BuiltinSource, 'references'> & Readonly<{ images: Omit<OciClient, 'reporting'> }>
  readonly origins: FileOrigins
  /** Null when models may not name files of this machine. */
  readonly modelDir: string | null
  readonly platform: Platform
  readonly clock: Clock
}

export async function findOrigin(deps: OriginDeps, file: WantedFile, signal: AbortSignal): Promise<FileOrigin> {
  const { source } = file
  switch (source.kind) {
    case 'web':
    case 'hf':
    case 's3': {
      const { url, ...login } = locateFile(source, deps)
      const how = { ...login, signal }
      return originWithoutDigest((at) => deps.outboundClients().files(url, { ...at, ...how }))
    }
    case 'oci': {
      const { reference } = source
      const { oci } = deps.outboundClients()
      const found = await oci.resolveFile({ reference, filename: file.filename, platform: deps.platform, signal })
      return { ...found, mirrors: [({ offset }) => oci.openBlob(reference, found.digest, { offset, signal })] }
    }
    case 'builtin': {
      const { digest } = source
      const mirrors = deps.builtin.references(file.uri).map(
        (reference): OpenOrigin =>
          ({ offset }) =>
            deps.builtin.images.openBlob(reference, digest, { offset, signal }),
      )
      return { digest, size: null, mirrors }
    }
    case 'file':
      return await findOnDisk(deps.modelDir, source.path)
    case 'upload':
      throw new FleetError({
        code: 'unavailable',
        retry: 'backoff',
        message: 'it was uploaded, and no node that stores it is reachable; wait for one to return, or upload it again',
      })
    default:
      return unreachable(source)
  }
}

const originWithoutDigest = (open: OpenOrigin, size: number | null = null): FileOrigin => ({ digest: null, size, mirrors: [open] })

async function findOnDisk(modelDir: string | null, path: string): Promise<FileOrigin> {
  if (modelDir === null)
    throw refusal('invalid', `source_forbidden: ${path} is a file of this machine; start the worker with --model-dir to allow it`)
  const found = await findLocalFile(path, modelDir)
  if (found === null) throw refusal('not_found', `${path} does not exist on this machine`)
  // A replaced file is read from its beginning.
  return originWithoutDigest(
    ({ offset, validator }) => openLocalFile(found, validator === null || validator === found.validator ? offset : 0),
    found.size,
  )
}

const refusal = (code: 'invalid' | 'not_found', message: string): FleetError => new FleetError({ code, retry: 'never', message })

export interface LocalFile {
  readonly path: string
  readonly size: number
  /** Changes when the file is replaced or written to. */
  readonly validator: string
}

/** Null when the path does not exist. Throws when it leads out of `root`, after following links, or is not a regular file. */
export async function findLocalFile(path: string, root: string): Promise<LocalFile | null> {
  const [real, base] = await Promise.all([realPath(path), realPath(root)])
  if (real === null || base === null) return null
  if (!real.startsWith(base.endsWith(sep) ? base : base + sep))
    throw refusal('invalid', `source_forbidden: ${path} is not in ${root}, the --model-dir of this worker`)
  await using file = await openPlain(real)
  const stats = await file.stat()
  // A device or a pipe may be endless.
  if (!stats.isFile()) throw refusal('invalid', `${path} is not a file`)
  return { path: real, size: stats.size, validator: `${stats.dev}-${stats.ino}-${stats.size}-${stats.mtimeMs}` }
}

async function openLocalFile({ path, size, validator }: LocalFile, offset: number): Promise<OpenedStream> {
  const file = await openPlain(path)
  return { stream: file.createReadStream({ start: offset }), offset, size, validator }
}

/** Does not follow a link created since, and does not wait for the other end of a pipe. */
const openPlain = (path: string) => openFile(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)

async function realPath(path: string): Promise<string | null> {
  try {
    return await realpath(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(String(errorCode(error)))) return null
    throw error
  }
}

type Peer = NonNullable<ModelFile['peers']>[number]

/**
 * Opens a file at the gateway of another worker. A controller chose that worker and issued a token for this file, so the
 * guard of outbound requests does not apply; redirects are not followed.
 */
export async function openPeerFile(
  { url: address, authorization }: Peer,
  { digest, offset, clock, signal }: { digest: Digest; offset: number; clock: Clock; signal: AbortSignal },
): Promise<OpenedStream> {
  const url = URL.parse(address)
  if (url === null || !/^https?:$/.test(url.protocol)) throw unavailable(`${JSON.stringify(address)} is not the address of a worker`)
  const what = `${digest} at ${url.host}`
  const request = async (headers: Readonly<Record<string, string>>, okStatuses: readonly number[]): Promise<OutboundResponse> => {
    const response = await open(headers)
    if (okStatuses.includes(response.status)) return response
    response.body.destroy()
    throw unavailable(`${what}: the worker answered ${response.status}`)
  }
  const open = async (headers: Readonly<Record<string, string>>): Promise<OutboundResponse> => {
    try {
      return await openStream({ url, headers: { ...headers, authorization }, onBroken: () => undefined, clock, signal })
    } catch (error) {
      signal.throwIfAborted()
      throw unavailable(`${what}: the worker is unreachable (${errorMessage(error)})`, error)
    }
  }
  return await openAtOffset(offset, { request, what })
}

const unavailable = (message: string, cause?: unknown): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message }, { cause })
