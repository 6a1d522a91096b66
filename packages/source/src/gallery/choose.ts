// Pure: resolves a backend's name to the gallery entry that fits a node.
import { unreachable } from '@muster/protocol'
import { type GalleryEntry, isMeta } from './entry.ts'
import type { ParsedGallery } from './parse-gallery.ts'

/**
 * The name that `capabilities` has for a node: for exactly its capability, else `default`, else `cpu`, as LocalAI resolves it. A
 * meta backend with none of the three is for GPUs only: then the family of the capability counts (docs/adr/0024). Null when there
 * is nothing for the node.
 */
export function chooseConcrete(entry: Pick<GalleryEntry, 'capabilities'>, capability: string): string | null {
  for (const candidate of [capability, 'default', 'cpu', ...widening(capability)]) {
    if (Object.hasOwn(entry.capabilities, candidate)) return entry.capabilities[candidate] ?? null
  }
  return null
}

/** A Jetson has another processor than other machines with NVIDIA GPUs, so its family is as wide as it gets. */
const families: readonly string[] = ['nvidia-l4t']

/** `nvidia-cuda-13` → `nvidia-cuda`, `nvidia`; `nvidia-l4t-cuda-12` → `nvidia-l4t-cuda`, `nvidia-l4t`. */
function widening(capability: string): string[] {
  const parts = capability.split('-')
  const wider = parts.slice(1).map((_, index) => parts.slice(0, parts.length - index - 1).join('-'))
  const family = families.find((each) => capability === each || capability.startsWith(`${each}-`))
  return wider.filter((each) => each !== '' && (family === undefined || each.startsWith(family)))
}

/** The capabilities that workers report. */
export const reportedCapabilities: readonly string[] = [
  ...['default', 'nvidia-cuda-12', 'nvidia-cuda-13', 'nvidia', 'nvidia-l4t-cuda-12', 'nvidia-l4t-cuda-13', 'nvidia-l4t'],
  ...['amd', 'intel', 'vulkan', 'metal'],
]

/** The builds of a meta backend: capability → name; null where it has nothing. */
export const resolveMeta = (entry: Pick<GalleryEntry, 'capabilities'>): Record<string, string | null> =>
  Object.fromEntries(reportedCapabilities.map((capability) => [capability, chooseConcrete(entry, capability)]))

/** Builds of unreleased code have names that end so. */
export const channelOf = ({ name }: Pick<GalleryEntry, 'name'>): 'release' | 'development' =>
  name.endsWith('-development') ? 'development' : 'release'

export type BackendChoice = Readonly<
  /** `requested` is the entry of the requested name: the meta backend, or `found.entry`. */
  ({ kind: 'found'; requested: GalleryEntry; found: FoundBackend } | { kind: 'unknown' | 'unfit'; reason: string }) & {
    /** All names that were looked up in the order of the galleries, not in a named one: the choice depends on every gallery up to these. */
    lookups: readonly Lookup[]
  }
>
/** `gallery`: the first one that offers the name; null: none does. */
export type Lookup = Readonly<{ name: string; gallery: Gallery | null }>

/** The entry that this node would install for a name. */
export function chooseBackend(galleries: readonly Gallery[], wanted: string, node: NodeTraits): BackendChoice {
  const requested = findBackend(galleries, wanted)
  const lookups: Lookup[] = wanted.includes('@') ? [] : [{ name: wanted, gallery: requested?.gallery ?? null }]
  if (requested === null) return { kind: 'unknown', reason: `no gallery offers ${wanted}${leftOutText(galleries, wanted)}`, lookups }
  const concrete = isMeta(requested.entry) ? chooseConcrete(requested.entry, node.capability) : requested.entry.name
  if (concrete === null) return { kind: 'unfit', reason: `${wanted} has nothing for ${node.capability}`, lookups }
  let found = concrete === requested.entry.name ? requested : findBackend([requested.gallery], concrete)
  if (found === null) {
    found = findBackend(galleries, concrete)
    lookups.push({ name: concrete, gallery: found?.gallery ?? null })
  }
  if (found === null || isMeta(found.entry)) {
    return { kind: 'unknown', reason: `${wanted} resolves to ${concrete} on ${node.capability}, which no gallery offers`, lookups }
  }
  if (found.entry.uri === '') return { kind: 'unfit', reason: `${concrete} names nothing to install`, lookups }
  // A meta backend knows its builds better than their names do: `cpu-mlx` is not for macOS.
  const fit = found === requested ? fitsNode(found.entry, node) : fitsProcessor(found.entry, node)
  switch (fit.fits) {
    case true:
      return { kind: 'found', requested: requested.entry, found, lookups }
    case false:
      return { kind: 'unfit', reason: fit.reason, lookups }
    default:
      return unreachable(fit)
  }
}

// Finds a backend by name in all galleries, in their order.
export interface Gallery extends ParsedGallery<GalleryEntry> {
  readonly name: string
}

/** For an error: the reasons why entries of this name cannot be read. */
export function leftOutText(galleries: readonly Gallery[], name: string): string {
  const found = galleries.flatMap(({ name: gallery, leftOut }) =>
    leftOut.flatMap((each) => (each.name === name ? [` (its entry in ${gallery} cannot be read: ${each.message})`] : [])),
  )
  return found.join('')
}

export interface FoundBackend {
  readonly gallery: Gallery
  readonly entry: GalleryEntry
}

/** `name`, or `gallery@name` for one gallery's. The first match wins: galleries are listed in order of trust. */
export function findBackend(galleries: readonly Gallery[], wanted: string): FoundBackend | null {
  const at = wanted.indexOf('@')
  const [within, name] = at < 0 ? [null, wanted] : [wanted.slice(0, at), wanted.slice(at + 1)]
  for (const gallery of galleries) {
    if (within !== null && gallery.name !== within) continue
    const entry = gallery.entries.find((each) => each.name === name)
    if (entry !== undefined) return { gallery, entry }
  }
  return null
}

// Decides by name and uri if an entry can run on a node. The format has no field for it, but names follow a convention
// (cuda12-…, …-gpu-rocm-hipblas-…, metal-…). An entry whose name matches none of it is for every machine.
export interface NodeTraits {
  readonly os: string
  readonly arch: string
  readonly capability: string
}
export type FitResult = { readonly fits: true } | { readonly fits: false; readonly reason: string }

const isVendor =
  (vendor: string) =>
  ({ capability }: NodeTraits): boolean =>
    capability === vendor || capability.startsWith(`${vendor}-`)
const isDarwin = ({ os }: NodeTraits): boolean => os === 'darwin'

/** The first match decides: `l4t` builds are `nvidia` ones too. */
const hints: readonly { words: RegExp; wants: string; suits: (node: NodeTraits) => boolean }[] = [
  { words: /^(?:darwin|mlx|metal)$/, wants: 'macOS', suits: isDarwin },
  { words: /^l4t$/, wants: 'an NVIDIA Jetson (nvidia-l4t)', suits: isVendor('nvidia-l4t') },
  { words: /^(?:cuda\d*|nvidia)$/, wants: 'an NVIDIA GPU', suits: isVendor('nvidia') },
  { words: /^(?:rocm\d*|hip|hipblas|amd)$/, wants: 'an AMD GPU', suits: isVendor('amd') },
  { words: /^(?:sycl|intel|oneapi)$/, wants: 'an Intel GPU', suits: isVendor('intel') },
]

const archWords: ReadonlyMap<string, string> = new Map([
  ['amd64', 'amd64'],
  ['x86_64', 'amd64'],
  ['x64', 'amd64'],
  ['arm64', 'arm64'],
  ['aarch64', 'arm64'],
])

/** Words between separators, so that amd64 is not AMD and whisper is not HIP. */
const wordsOf = (entry: Pick<GalleryEntry, 'name' | 'uri'>): string[] =>
  `${entry.name} ${entry.uri}`
    .toLowerCase()
    .split(/[^a-z0-9_]+/)
    .filter((word) => word !== '')

export function fitsNode(entry: Pick<GalleryEntry, 'name' | 'uri'>, node: NodeTraits): FitResult {
  const words = wordsOf(entry)
  const hint = hints.find((each) => words.some((word) => each.words.test(word)))
  if (hint !== undefined && !hint.suits(node)) {
    return { fits: false, reason: `${entry.name} needs ${hint.wants}; this node is ${node.os}/${node.arch}, ${node.capability}` }
  }
  return fitsProcessor(entry, node)
}

function fitsProcessor(entry: Pick<GalleryEntry, 'name' | 'uri'>, node: NodeTraits): FitResult {
  const words = wordsOf(entry)
  const arches = new Set(words.flatMap((word) => archWords.get(word) ?? []))
  const arch = archWords.get(node.arch) ?? node.arch
  if (arches.size > 0 && !arches.has(arch)) {
    return { fits: false, reason: `${entry.name} is built for ${[...arches].join(', ')}; this node is ${node.os}/${node.arch}` }
  }
  return { fits: true }
}
