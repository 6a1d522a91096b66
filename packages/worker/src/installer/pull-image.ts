// Pulls an image from a registry into the store: the reference is resolved once, then everything is fetched by digest. The
// references after the first are mirrors and must serve the digest that the first one resolved to.
import { type Clock, inLanes } from '@muster/host'
import type { OciClient, OciReference, Platform, ResolvedImage } from '@muster/source'
import { failureOf, type Digest, type Failure } from '@muster/protocol'
import type { InstallContext } from '../operations/installer.ts'
import type { BackendStore } from '../storage/backend-store.ts'
import { withSigns } from '../storage/signs.ts'
import { fetchFromMirrors, firstSuccess } from '../storage/mirrors.ts'

/** Layers fetched at once: enough to saturate a network link, few enough for the disk. */
const atOnce = 3

export interface PullDeps {
  readonly oci: OciClient
  readonly store: BackendStore
  readonly platform: Platform
  readonly clock: Clock
}

export interface PulledImage {
  /** Digest of the manifest for this platform; also the name of the tree. */
  readonly digest: Digest
  /** Digest of the image index that led to the manifest. */
  readonly indexDigest: Digest | null
}

export interface ImageRequest {
  /** All after the first are mirrors. */
  readonly references: readonly OciReference[]
  readonly digest: Digest | null
  /** With `repair` an existing tree is compared with the new content and repaired. */
  readonly onExisting?: 'repair'
}

/** The numbers are those of storage/design.md. */
export async function pullImage(given: PullDeps, wanted: ImageRequest, context: InstallContext): Promise<PulledImage> {
  const deps = { ...given, oci: given.oci.reporting((cause, ms) => context.onWait?.(cause.message, ms)) }
  const { oci, store, platform } = deps
  const onExisting = wanted.onExisting === undefined ? {} : { onExisting: wanted.onExisting }
  const { signal, onProgress, step } = context
  // 3.
  onProgress({ phase: 'resolving', server: wanted.references[0]?.registry ?? '' })
  const { image, references } = await resolve({ oci, platform }, wanted, signal)
  await step('W.pull.manifest')
  using held = new DisposableStack()
  held.use(store.hold([image.manifestDigest, ...image.layers.map((layer) => layer.digest)]))
  await store.beginPull(
    image.manifestDigest,
    image.layers.map((layer) => layer.digest),
  )
  try {
    await fetchAndUnpack(deps, { image, references, ...onExisting }, context)
  } catch (error) {
    const { code, retry } = failureOf(error)
    // The install is not retried, so its blobs are not needed.
    if (retry === 'never') await store.endPull(image.manifestDigest)
    // Installs that are running keep their blobs by holds.
    if (code === 'disk_full') await store.endOtherPulls(image.manifestDigest)
    throw error
  }
  await store.endPull(image.manifestDigest)
  return { digest: image.manifestDigest, indexDigest: image.indexDigest ?? null }
}

type ImageSource = Readonly<{ image: ResolvedImage; references: readonly OciReference[] }>

async function fetchAndUnpack(
  deps: PullDeps,
  { image, references, ...onExisting }: ImageSource & Pick<ImageRequest, 'onExisting'>,
  context: InstallContext,
): Promise<void> {
  const { signal, onProgress, onSign } = context
  const fetchAll = (): Promise<void> => fetchLayers(deps, { image, references }, context)
  const unpack = async (): Promise<void> => {
    onProgress({ phase: 'extracting', current: image.totalBytes, total: image.totalBytes })
    await deps.store.unpack(image.manifestDigest, image.layers, { signal, onSign, ...onExisting })
  }
  // 4.
  await fetchAll()
  try {
    // 5, 6.
    await unpack()
  } catch (error) {
    // A layer that changed on this disk after its verification was removed; fetch it again.
    if (signal.aborted || !isDamage(failureOf(error))) throw error
    await fetchAll()
    await unpack()
  }
}

/** A refused image has `retry: never` and is not fetched again. */
const isDamage = ({ code, retry }: Failure): boolean => code === 'integrity' && retry === 'backoff'

async function resolve(
  { oci, platform }: Pick<PullDeps, 'oci' | 'platform'>,
  { references: named, digest }: ImageRequest,
  signal: AbortSignal,
): Promise<{ image: ResolvedImage; references: OciReference[] }> {
  const references = named.map((reference) => (digest === null ? reference : { ...reference, digest }))
  const image = await firstSuccess(references, (reference) => oci.resolve(reference, platform, signal))
  return { image, references }
}

async function fetchLayers(deps: PullDeps, { image, references }: ImageSource, context: InstallContext): Promise<void> {
  const layers = [...new Map(image.layers.map((layer) => [layer.digest, layer])).values()]
  const have = new Map<Digest, number>()
  await inLanes(layers, { atOnce, signal: context.signal }, async (layer, { index, signal }) => {
    let server = references[0]?.registry ?? ''
    const fileName = `${layer.digest.slice(0, 15)}… (${index + 1}/${layers.length})`
    const onBytes = (bytes: number): void => {
      have.set(layer.digest, bytes)
      const current = [...have.values()].reduce((sum, each) => sum + each, 0)
      context.onProgress({ phase: 'downloading', fileName, current, total: image.totalBytes, server })
    }
    const mirrors = references.map((reference) => async (offset: number) => {
      server = reference.registry
      return await deps.oci.openBlob(reference, layer.digest, { offset, signal })
    })
    const release = await withSigns(context.onSign, () => context.budget.reserve(1024 ** 2, signal))
    try {
      await fetchFromMirrors(deps, { digest: layer.digest, size: layer.size, mirrors }, { signal, onBytes, onSign: context.onSign })
    } finally {
      release()
    }
  })
}
