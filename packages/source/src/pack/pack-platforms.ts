// Directories, each for one platform → one index with an image for each. What is native differs between them, so nothing is
// shared but the name.
import { openLayout, type Descriptor } from './image-layout.ts'
import type { PackedImage } from './pack-directory.ts'
import { putImage, putIndex, putLayer, type PackPlatform } from './put-image.ts'
import { walkDirectory } from './walk-directory.ts'

export interface PlatformDirectory {
  readonly directory: string
  readonly platform: PackPlatform
}

/** In the order given. */
export async function packPlatforms(
  parts: readonly PlatformDirectory[],
  { layout: directory, refName, signal }: { layout: string; refName: string; signal: AbortSignal },
): Promise<Pick<PackedImage, 'root' | 'manifests' | 'blobs' | 'layout'>> {
  const layout = await openLayout(directory)
  const images = []
  const blobs: Descriptor[] = []
  for (const part of parts) {
    const sources = await walkDirectory(part.directory, signal)
    const { layer, diffId } = await putLayer(layout, sources, { compression: 'zstd', signal })
    const image = await putImage(layout, { platform: part.platform, layer, diffId })
    images.push({ platform: part.platform, ...image })
    blobs.push(layer, image.config)
  }
  const root = await putIndex(layout, images)
  await layout.name(root, refName)
  return { root, manifests: images.map(({ manifest }) => manifest), blobs, layout }
}
