// Which entry a meta backend stands for on a node. Decides and does nothing else.
import { unreachable } from '@muster/protocol'
import { isMeta, type GalleryEntry } from './entry.ts'
import { findBackend, type FoundBackend, type Gallery } from './find-backend.ts'
import { fitsNode, type NodeTraits } from './fits-node.ts'

/**
 * The name that `capabilities` has for a node, most exact first: `nvidia-cuda-12`, then its vendor `nvidia`, then
 * `default`, then `cpu`. Null when there is nothing for it.
 */
export function chooseConcrete(entry: Pick<GalleryEntry, 'capabilities'>, capability: string): string | null {
  for (const candidate of [...widening(capability), 'default', 'cpu']) {
    if (Object.hasOwn(entry.capabilities, candidate)) return entry.capabilities[candidate] ?? null
  }
  return null
}

/** `nvidia-l4t-cuda-12` → itself, `nvidia-l4t-cuda`, `nvidia-l4t`, `nvidia`. */
function widening(capability: string): string[] {
  const parts = capability.split('-')
  return parts.map((_, index) => parts.slice(0, parts.length - index).join('-')).filter((part) => part !== '')
}

export type Choice =
  /** `asked` is the entry of the name that was asked for: the meta backend, or `found.entry` itself. */
  | { readonly kind: 'found'; readonly asked: GalleryEntry; readonly found: FoundBackend }
  | { readonly kind: 'unknown' | 'unfit'; readonly reason: string }

/** From the name that was asked for to what this node would install. */
export function chooseBackend(galleries: readonly Gallery[], wanted: string, node: NodeTraits): Choice {
  const asked = findBackend(galleries, wanted)
  if (asked === null) return { kind: 'unknown', reason: `no gallery offers ${wanted}` }
  const concrete = isMeta(asked.entry) ? chooseConcrete(asked.entry, node.capability) : asked.entry.name
  if (concrete === null) return { kind: 'unfit', reason: `${wanted} has nothing for ${node.capability}` }
  const found = concrete === asked.entry.name ? asked : (findBackend([asked.gallery], concrete) ?? findBackend(galleries, concrete))
  if (found === null || isMeta(found.entry)) {
    return { kind: 'unknown', reason: `${wanted} stands for ${concrete} on ${node.capability}, which no gallery offers` }
  }
  if (found.entry.uri === '') return { kind: 'unfit', reason: `${concrete} names nothing to install` }
  const fit = fitsNode(found.entry, node)
  switch (fit.fits) {
    case true:
      return { kind: 'found', asked: asked.entry, found }
    case false:
      return { kind: 'unfit', reason: fit.reason }
    default:
      return unreachable(fit)
  }
}
