// Resolves a reference to the digests of all parts of an image. The tag is read once; then everything goes by digest.
import { type Digest, FleetError } from '@muster/protocol'
import {
  acceptedManifests,
  checkConfigPlatform,
  chooseManifest,
  type ImageDocument,
  type Manifest,
  type ManifestPurpose,
  parseConfig,
  parseManifest,
  type Platform,
} from './manifest.ts'
import { formatReference, type OciReference } from './reference.ts'
import { fetchDocument, type RegistryCall } from './registry-call.ts'

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
