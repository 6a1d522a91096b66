// Whether an entry can run on a node, as far as its name and uri tell. The format has no field for it, but names follow
// a custom (cuda12-…, …-gpu-rocm-hipblas-…, metal-…). An entry whose name says nothing is for every machine.
import type { GalleryEntry } from './entry.ts'

export interface NodeTraits {
  readonly os: string
  readonly arch: string
  readonly capability: string
}
export type Fit = { readonly fits: true } | { readonly fits: false; readonly reason: string }

interface Hint {
  readonly words: RegExp
  readonly wants: string
  readonly suits: (node: NodeTraits) => boolean
}

const isVendor =
  (vendor: string) =>
  ({ capability }: NodeTraits): boolean =>
    capability === vendor || capability.startsWith(`${vendor}-`)
const isDarwin = ({ os }: NodeTraits): boolean => os === 'darwin'

/** The first that matches decides: `l4t` builds are `nvidia` ones too. */
const hints: readonly Hint[] = [
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

export function fitsNode(entry: Pick<GalleryEntry, 'name' | 'uri'>, node: NodeTraits): Fit {
  const words = wordsOf(entry)
  const hint = hints.find((each) => words.some((word) => each.words.test(word)))
  if (hint !== undefined && !hint.suits(node)) {
    return { fits: false, reason: `${entry.name} needs ${hint.wants}; this node is ${node.os}/${node.arch}, ${node.capability}` }
  }
  const arches = new Set(words.flatMap((word) => archWords.get(word) ?? []))
  const arch = archWords.get(node.arch) ?? node.arch
  if (arches.size > 0 && !arches.has(arch)) {
    return { fits: false, reason: `${entry.name} is built for ${[...arches].join(', ')}; this node is ${node.os}/${node.arch}` }
  }
  return { fits: true }
}
