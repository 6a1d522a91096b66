// The models of galleries as the API shows them, with the builds to choose from.
import type { OfferedModel, OfferedVariant } from '@muster/protocol'
import { type BaseFiles, type BaseQuery, chooseVariant, type VariantCandidate, type VariantNode } from '@muster/source'
import type { NodeRecord } from '../store/nodes.ts'
import { applyVramBudget } from '../nodes/limits.ts'
import { firstOffers, type OfferedEntry, type OfferedModels } from './model-catalogue.ts'

/** Nodes that run models, for the choice among builds. */
export const variantNodes = (nodes: readonly NodeRecord[]): VariantNode[] =>
  nodes
    .filter((node) => node.nodeType !== 'agent' && node.approvedAt !== null)
    .map(({ name, capability, vramBudget, ...node }) => {
      const resources = applyVramBudget(node.resources, vramBudget)
      return { name, capability, gpuBytes: resources.total_vram ?? 0, ramBytes: resources.total_ram ?? 0 }
    })

/** The backend of the overrides, else of the entry's own configuration, else of its base file, once that was read; else empty. */
function backendOf(bases: Pick<BaseFiles, 'known'>, { url, entry: { config, localai } }: OfferedEntry): string {
  const base = localai === null || localai.base === null ? null : bases.known({ url: localai.base, galleryUrl: url })
  const named = [config, localai?.overrides, localai?.config, base?.config].map((each) => each?.['backend'])
  return named.find((each) => typeof each === 'string') ?? ''
}

export const candidateOf = (bases: Pick<BaseFiles, 'known'>, offered: OfferedEntry): VariantCandidate => ({
  name: offered.entry.name,
  backend: backendOf(bases, offered),
  sizeBytes: offered.entry.size_bytes,
  tags: offered.entry.tags,
})

/** Base files that were not read yet, each once. */
export function unreadBases({ models }: OfferedModels, bases: Pick<BaseFiles, 'known'>): BaseQuery[] {
  const queries = models.flatMap(({ url, entry: { localai } }) =>
    localai === null || localai.base === null ? [] : [{ url: localai.base, galleryUrl: url }],
  )
  const unread = queries.filter((query) => bases.known(query) === null)
  return [...new Map(unread.map((query) => [JSON.stringify(query), query])).values()]
}

interface OfferedDeps {
  readonly bases: Pick<BaseFiles, 'known'>
  readonly nodes: readonly NodeRecord[]
  /** Names of models that exist. */
  readonly installed: ReadonlySet<string>
}

export function showOffers({ models }: OfferedModels, { bases, nodes, installed }: OfferedDeps): OfferedModel[] {
  const byName = new Map(models.toReversed().map((offered) => [JSON.stringify([offered.gallery, offered.entry.name]), offered]))
  const fleet = variantNodes(nodes)
  return firstOffers(models).map((offered) => {
    const { config: _config, files: _files, localai: _localai, variants: names, ...about } = offered.entry
    const others = names.flatMap((name) => byName.get(JSON.stringify([offered.gallery, name])) ?? [])
    return {
      ...about,
      gallery: offered.gallery,
      backend: backendOf(bases, offered),
      installed: installed.has(about.name),
      variants: others.length === 0 ? [] : showVariants([offered, ...others], { bases, fleet }),
    }
  })
}

/** Only by stated sizes: an install measures the others. */
function showVariants(
  offers: readonly OfferedEntry[],
  { bases, fleet }: { bases: Pick<BaseFiles, 'known'>; fleet: readonly VariantNode[] },
): OfferedVariant[] {
  const candidates = offers.map((offered) => candidateOf(bases, offered))
  const [base, ...variants] = candidates
  const choice = base === undefined ? null : chooseVariant({ base, variants, nodes: fleet, pin: null })
  return candidates.map(({ name, backend, sizeBytes }) => ({
    ...{ name, backend, size_bytes: sizeBytes },
    chosen: choice?.chosen === name,
    reason: choice?.all.find((each) => each.name === name)?.reason ?? '',
  }))
}
