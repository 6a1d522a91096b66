// Images and artifacts from registries: resolves references to digests and opens blobs. The tag is read once; then everything
// goes by digest.
import { Digest, FleetError } from '@muster/protocol'
import { createBusyRetry, type OnWait, type RetryBusy } from '../outbound/busy-retry.ts'
import { openAtOffset, type OpenedStream } from '../outbound/open-at-offset.ts'
import type { OutboundResponse } from '../outbound/outbound.ts'
import { failureOfStatus } from '../outbound/status-failure.ts'
import { digestOf } from '../pack/image-layout.ts'
import {
  acceptedManifests,
  checkConfigPlatform,
  chooseManifest,
  type ImageDocument,
  largestDocument,
  type Manifest,
  type ManifestPurpose,
  parseConfig,
  parseManifest,
  type Platform,
} from './manifest.ts'
import { howToLogIn } from './credentials.ts'
import { formatReference, type OciReference } from './reference.ts'
import { createRegistryApi, type RegistryOptions, type RegistryRequest } from './registry-api.ts'

export interface OciClient {
  /** Tag → digest once; index → the manifest of this platform. Every document is checked against its digest. */
  resolve(reference: OciReference, platform: Platform, signal: AbortSignal): Promise<ResolvedImage>
  /** The layer of an artifact that is this file. */
  resolveFile(wanted: ArtifactQuery): Promise<ArtifactFile>
  /** From `offset` on if the registry supports it; otherwise from the beginning, as its answer states. */
  openBlob(reference: OciReference, digest: Digest, at: { offset: number; signal: AbortSignal }): Promise<OpenedStream>
  /** The same client, which reports each wait for a registry. */
  reporting(onWait: OnWait): OciClient
}

/** Mirrors are separate references that the caller tries in order. */
export function createOciClient(options: RegistryOptions & { readonly random?: () => number }): OciClient {
  return ociClientOver(createRegistryCall(options))
}

/** The same client over any registry API. */
export function ociClientOver(call: RegistryCall): OciClient {
  return {
    resolve: (reference, platform, signal) => resolveImage(call, { reference, platform, signal }),
    resolveFile: (wanted) => resolveArtifact(call, wanted),
    openBlob: (reference, digest, { offset, signal }) => openBlob(call, { reference, digest, offset, signal }),
    reporting: (onWait) => ociClientOver({ ...call, patiently: (work, signal) => call.patiently(work, signal, onWait) }),
  }
}

/** Unexpected statuses are failures, and unavailable servers are retried. */
export interface RegistryCall {
  /** One attempt; throws on an unexpected status. */
  send(request: RegistryRequest, expected: { what: string; okStatuses: readonly number[] }): Promise<OutboundResponse>
  readonly patiently: RetryBusy
}

export function createRegistryCall(options: RegistryOptions & { readonly random?: () => number }): RegistryCall {
  const { clock, log, random = Math.random } = options
  const sendOnce = createRegistryApi(options)
  return {
    patiently: createBusyRetry({ clock, log, random }),
    async send(request, { what, okStatuses }) {
      const response = await sendOnce({ ...request, what })
      if (okStatuses.includes(response.status)) return response
      const { registry } = request.reference
      const server = response.url.host === registry ? registry : `${response.url.host} (for ${registry})`
      throw await failureOfStatus(response, { what, server, now: clock.now(), howToLogIn: howToLogIn(registry) })
    },
  }
}

// Fetches a whole document: bounded, and only accepted with the right digest.
export type DocumentRequest = Readonly<{ request: RegistryRequest; what: string; digest?: Digest; size?: number }>

export type FetchedDocument = Readonly<{ bytes: Buffer; digest: Digest; contentType: string | undefined }>

export async function fetchDocument(
  call: RegistryCall,
  { request, what, digest: wanted, size }: DocumentRequest,
): Promise<FetchedDocument> {
  return await call.patiently(async () => {
    const response = await call.send(request, { what, okStatuses: [200] })
    const bytes = await response.bytes(Math.min(size ?? largestDocument, largestDocument))
    const digest = digestOf(bytes)
    // The digest in the header is never trusted; when it differs, the transfer failed.
    const told = Digest.safeParse(response.headers['docker-content-digest']).data
    const right = wanted ?? told ?? digest
    if (digest !== right)
      throw new FleetError({ code: 'integrity', retry: 'backoff', message: `${what} should be ${right} and is ${digest}` })
    if (size !== undefined && size !== bytes.length)
      throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} has ${bytes.length} bytes, not ${size}` })
    return { bytes, digest, contentType: response.headers['content-type'] }
  }, request.signal)
}

// Opens a layer as a stream, from the end of an earlier attempt. The consumer verifies the digest.
type BlobRequest = Readonly<{ reference: OciReference; digest: Digest; offset: number; signal: AbortSignal }>

export async function openBlob(call: RegistryCall, { reference, digest, offset, signal }: BlobRequest): Promise<OpenedStream> {
  const what = `blob ${digest} of ${reference.registry}/${reference.repository}`
  const request: Parameters<typeof openAtOffset>[1]['request'] = (headers, okStatuses) =>
    call.send({ reference, path: `blobs/${digest}`, headers, signal }, { what, okStatuses })
  return await call.patiently(() => openAtOffset(offset, { request, what }), signal)
}

export type ImageLayer = Readonly<{ digest: Digest; size: number; mediaType: string; diffId: Digest }>

export type ResolvedImage = Readonly<{
  /** The reference, pinned to its current digest. */
  reference: OciReference
  /** The digest of the index, if there is one. */
  indexDigest?: Digest
  manifestDigest: Digest
  /** In the order of unpacking. A layer may occur twice. */
  layers: readonly ImageLayer[]
  config: Readonly<{ digest: Digest; size: number }>
  /** The size of all distinct layers. */
  totalBytes: number
}>

type ImageQuery = Readonly<{ reference: OciReference; platform: Platform; signal: AbortSignal; purpose?: ManifestPurpose }>
type ManifestDescriptor = Readonly<{ digest: Digest; size: number; mediaType: string }>
type FetchedManifest = Readonly<{ document: ImageDocument; digest: Digest }>

export async function resolveImage(call: RegistryCall, asked: ImageQuery): Promise<ResolvedImage> {
  const { reference } = asked
  const { manifest, digest, indexDigest } = await findManifest(call, asked)
  const diffIds = await fetchDiffIds(call, { ...asked, manifest })
  return {
    reference: { ...reference, digest: indexDigest ?? digest },
    ...(indexDigest === undefined ? {} : { indexDigest }),
    manifestDigest: digest,
    layers: withDiffIds(manifest, diffIds),
    config: { digest: manifest.config.digest, size: manifest.config.size },
    totalBytes: totalOf(manifest),
  }
}

export async function findManifest(call: RegistryCall, asked: ImageQuery) {
  const first = await fetchManifest(call, asked, null)
  if (first.document.kind === 'manifest') return { manifest: first.document, digest: first.digest }
  const what = formatReference(asked.reference)
  const entry = chooseManifest(first.document.manifests, { platform: asked.platform, what })
  const { document, digest } = await fetchManifest(call, asked, entry)
  // chooseManifest accepts only images, and the media type of an entry must match its document.
  if (document.kind !== 'manifest')
    throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} has an index inside an index` })
  return { manifest: document, digest, indexDigest: first.digest }
}

async function fetchManifest(
  call: RegistryCall,
  { reference, signal, purpose = 'image' }: ImageQuery,
  described: ManifestDescriptor | null,
): Promise<FetchedManifest> {
  const digest = described?.digest ?? reference.digest
  const what = formatReference({ ...reference, digest })
  const request = {
    reference,
    path: `manifests/${digest ?? reference.tag ?? 'latest'}`,
    headers: { accept: acceptedManifests },
    signal,
  }
  const wanted = { request, what, ...(digest === null ? {} : { digest }), ...(described === null ? {} : { size: described.size }) }
  const fetched = await fetchDocument(call, wanted)
  const called = { what, purpose, contentType: fetched.contentType, ...(described === null ? {} : { describedAs: described.mediaType }) }
  return { document: parseManifest(fetched.bytes, called), digest: fetched.digest }
}

async function fetchDiffIds(call: RegistryCall, asked: ImageQuery & { readonly manifest: Manifest }): Promise<readonly Digest[]> {
  const { reference, platform, signal, manifest } = asked
  const { digest, size } = manifest.config
  const what = `the config of ${formatReference(reference)}`
  const { bytes } = await fetchDocument(call, { request: { reference, path: `blobs/${digest}`, signal }, what, digest, size })
  const config = parseConfig(bytes, { what, layers: manifest.layers.length })
  checkConfigPlatform(config, { platform, what: formatReference(reference) })
  return config.rootfs.diff_ids
}

function withDiffIds(manifest: Manifest, diffIds: readonly Digest[]): ImageLayer[] {
  return manifest.layers.flatMap(({ digest, size, mediaType }, index) => {
    const diffId = diffIds[index]
    return diffId === undefined ? [] : [{ digest, size, mediaType, diffId }]
  })
}

const totalOf = ({ layers }: Manifest): number =>
  [...new Map(layers.map(({ digest, size }) => [digest, size])).values()].reduce((sum, size) => sum + size, 0)

export type ArtifactFile = Readonly<{ digest: Digest; size: number }>
export type ArtifactQuery = Readonly<{ reference: OciReference; filename: string; platform: Platform; signal: AbortSignal }>

const title = 'org.opencontainers.image.title'
const weights: ReadonlySet<string> = new Set([
  'application/vnd.ollama.image.model',
  'application/vnd.docker.ai.gguf.v3',
  'application/vnd.cncf.model.weight.v1.raw',
])

export /**
 * Finds a file in a registry: one layer of an artifact. The layer is found by the title that tools like ORAS give each file; the
 * only layer, or the only one with a model's weights, needs no title.
 */
async function resolveArtifact(call: RegistryCall, { filename, ...asked }: ArtifactQuery): Promise<ArtifactFile> {
  const { manifest } = await findManifest(call, { ...asked, purpose: 'artifact' })
  const found = chooseLayer(manifest.layers, filename)
  if (found !== null) return { digest: found.digest, size: found.size }
  const titles = manifest.layers.flatMap(({ annotations }) => annotations?.[title] ?? []).slice(0, 20)
  const has =
    titles.length === 0 ? `${manifest.layers.length} layers without titles` : titles.map((each) => JSON.stringify(each)).join(', ')
  const what = `${formatReference(asked.reference)} has no file ${JSON.stringify(filename)}, only ${has}`
  throw new FleetError({ code: 'not_found', retry: 'never', message: what.slice(0, 1000) })
}

type Layer = Manifest['layers'][number]

function chooseLayer(layers: readonly Layer[], filename: string): Layer | null {
  const named = (name: string): Layer | undefined => layers.find(({ annotations }) => annotations?.[title] === name)
  const titled = named(filename) ?? named(filename.slice(filename.lastIndexOf('/') + 1))
  if (titled !== undefined) return titled
  return only(layers) ?? only(layers.filter(({ mediaType }) => weights.has(mediaType)))
}

const only = (layers: readonly Layer[]): Layer | null => (layers.length === 1 ? (layers[0] ?? null) : null)
