// Which image of an index is for this machine.
import { FleetError } from '@muster/protocol'
import type { Config, IndexEntry } from './manifest.ts'
import { manifestTypes } from './media-types.ts'
import { fitness, showPlatform, type Platform } from './platform.ts'

export function chooseManifest(entries: readonly IndexEntry[], { platform, what }: { platform: Platform; what: string }): IndexEntry {
  const images = entries.filter(({ mediaType }) => manifestTypes.has(mediaType))
  let best: { entry: IndexEntry; fit: number } | null = null
  for (const entry of images) {
    const fit = entry.platform === undefined ? null : fitness(entry.platform, platform)
    if (fit !== null && (best === null || fit > best.fit)) best = { entry, fit }
  }
  if (best !== null) return best.entry
  // The only image of an index need not say for what it is: its config does.
  const [only] = images
  if (only !== undefined && images.length === 1 && only.platform === undefined) return only
  const offered = [...new Set(images.flatMap(({ platform: it }) => (it === undefined ? [] : [shown(it)])))].slice(0, 20)
  return incompatible(`${what} has nothing for ${showPlatform(platform)}${offered.length === 0 ? '' : `, only for ${offered.join(', ')}`}`)
}

/** An image without an index says in its config for what it is, or is for everything. */
export function checkConfigPlatform({ os, architecture, variant }: Config, { platform, what }: { platform: Platform; what: string }): void {
  if (!os || !architecture) return
  if (fitness({ os, architecture, variant }, platform) === null)
    incompatible(`${what} is for ${shown({ os, architecture, variant })}, not for ${showPlatform(platform)}`)
}

const shown = ({ os, architecture, variant }: { os: string; architecture: string; variant?: string | undefined }): string =>
  showPlatform({ os, arch: architecture, ...(variant ? { variant } : {}) })

function incompatible(message: string): never {
  throw new FleetError({ code: 'incompatible', retry: 'never', message })
}
