// An image from a registry into the store: resolved once, then everything by digest. The references after the first
// are mirrors of the same image and are held to the digest that the first one meant.
import { parseReference, type OciClient, type OciReference, type Platform, type ResolvedImage } from '@muster/source'
import { FleetError, type Digest } from '@muster/protocol'
import type { InstallContext } from '../operations/installer.ts'
import type { BackendStore } from '../storage/backend-store.ts'

/** Layers that come at once: enough to fill a line, few enough for the disk. */
const atOnce = 3

export interface PullDeps {
  readonly oci: OciClient
  readonly store: BackendStore
  readonly platform: Platform
}

export async function pullImage(
  { oci, store, platform }: PullDeps,
  wanted: { uris: readonly [string, ...string[]]; digest: Digest | null },
  context: InstallContext,
): Promise<Digest> {
  const { signal, onProgress, step } = context
  onProgress({ phase: 'resolving' })
  const { image, references } = await resolve({ oci, platform }, wanted, signal)
  await step('W.pull.manifest')
  using held = new DisposableStack()
  held.use(store.hold([image.manifestDigest, ...image.layers.map((layer) => layer.digest)]))
  await fetchLayers({ oci, store }, { image, references }, context)
  const total = image.totalBytes
  onProgress({ phase: 'extracting', current: total, total })
  await store.unpack(image.manifestDigest, image.layers, { signal })
  return image.manifestDigest
}

async function resolve(
  { oci, platform }: Pick<PullDeps, 'oci' | 'platform'>,
  { uris, digest }: { uris: readonly [string, ...string[]]; digest: Digest | null },
  signal: AbortSignal,
): Promise<{ image: ResolvedImage; references: OciReference[] }> {
  const references = uris.map((uri) => parseReference(uri)).map((reference) => (digest === null ? reference : { ...reference, digest }))
  const image = await firstOf(references, (reference) => oci.resolve(reference, platform, signal))
  return { image, references }
}

async function fetchLayers(
  { oci, store }: Pick<PullDeps, 'oci' | 'store'>,
  { image, references }: { image: ResolvedImage; references: readonly OciReference[] },
  { signal, onProgress, budget }: InstallContext,
): Promise<void> {
  const layers = [...new Map(image.layers.map((layer) => [layer.digest, layer])).values()]
  const have = new Map<Digest, number>()
  const tell = (fileName: string): void => {
    const current = [...have.values()].reduce((sum, bytes) => sum + bytes, 0)
    onProgress({ phase: 'downloading', fileName, current, total: image.totalBytes })
  }
  const fetchOne = async (index: number): Promise<void> => {
    const layer = layers[index]
    if (layer === undefined) return
    const fileName = `${layer.digest.slice(0, 15)}… (${index + 1}/${layers.length})`
    const release = await budget.reserve(1024 ** 2, signal)
    try {
      await store.fetchBlob(
        {
          digest: layer.digest,
          size: layer.size,
          open: (offset) => firstOf(references, (reference) => oci.openBlob(reference, layer.digest, { offset, signal })),
        },
        {
          signal,
          onBytes: (bytes) => {
            have.set(layer.digest, bytes)
            tell(fileName)
          },
        },
      )
    } finally {
      release()
    }
  }
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < layers.length) await fetchOne(next++)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, layers.length) }, lane))
}

/** The first that answers. What can't be mended by asking another (a wrong name, a bad digest) is told by the first. */
async function firstOf<T>(references: readonly OciReference[], ask: (reference: OciReference) => Promise<T>): Promise<T> {
  let first: unknown = null
  for (const reference of references) {
    try {
      return await ask(reference)
    } catch (error) {
      first ??= error
      if (error instanceof FleetError && (error.failure.code === 'cancelled' || error.failure.code === 'incompatible')) throw error
    }
  }
  throw first
}
