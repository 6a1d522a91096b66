// Chooses one of several builds of a model for the hardware of a fleet. LocalAI chooses for the machine of its frontend; here the
// nodes are tried in order, those with the most GPU memory first, then those with the most memory. The first node that a build
// fits for sure decides; if there is none, the first node. The order of the builds on a node, first difference counts:
//   1. fits for sure → the entry itself with an unknown fit → a build of unknown size → the entry itself, too large
//   2. the engine that suits the node's vendor
//   3. the tag dflash, then mtp, then neither
//   4. the larger build
//   5. the order of the list, the entry itself first
// Out, unless it is the entry itself: a build whose backend is for other hardware, or that the node cannot hold.
import { formatBytes } from '@muster/protocol'

export interface VariantCandidate {
  readonly name: string
  readonly backend: string
  /** The size of its files; null when unknown. */
  readonly sizeBytes: number | null
  readonly tags: readonly string[]
}

export interface VariantNode {
  readonly name: string
  readonly capability: string
  /** Memory of the largest GPU; 0 when there is none, or it is unknown. */
  readonly gpuBytes: number
  readonly ramBytes: number
}

export interface VariantChoice {
  readonly chosen: string
  readonly reason: string
  /** Every build with its reason, in the order of the list. */
  readonly all: readonly Readonly<{ name: string; reason: string }>[]
}

export interface VariantQuery {
  /** The entry itself. */
  readonly base: VariantCandidate
  readonly variants: readonly VariantCandidate[]
  readonly nodes: readonly VariantNode[]
  /** The name of a build that an administrator chose. */
  readonly pin: string | null
}

/** Null when the pin names none of the builds. */
export function chooseVariant({ base, variants, nodes, pin }: VariantQuery): VariantChoice | null {
  const candidates = [base, ...variants]
  if (pin !== null) {
    const pinned = candidates.find(({ name }) => name === pin)
    return pinned === undefined
      ? null
      : choiceOf(candidates, { chosen: pinned, reason: 'the request names it' }, () => 'the request names another build')
  }
  if (nodes.length === 0)
    return choiceOf(candidates, { chosen: base, reason: 'there is no node to choose for' }, () => 'there is no node to choose for')
  const pairs = nodes.toSorted(byMemory).map((node) => rankOn(node, candidates))
  const best = pairs.find(([first]) => first?.rank[0] === 0)?.[0] ?? pairs[0]?.[0]
  if (best === undefined) return choiceOf(candidates, { chosen: base, reason: 'no build fits a node' }, reasonOut(nodes))
  const isRanked = (candidate: VariantCandidate): boolean => pairs.flat().some((pair) => pair.candidate === candidate)
  return choiceOf(candidates, { chosen: best.candidate, reason: best.reason }, (candidate) =>
    isRanked(candidate) ? `${best.candidate.name} ranks higher` : reasonOut(nodes)(candidate),
  )
}

const byMemory = (a: VariantNode, b: VariantNode): number => b.gpuBytes - a.gpuBytes || b.ramBytes - a.ramBytes

/** The builds that are not out on a node, the best first. The entry itself is the first candidate, and never out. */
const rankOn = (node: VariantNode, candidates: readonly VariantCandidate[]): RankedPair[] =>
  candidates.flatMap((candidate, order) => rankPair({ candidate, order, isBase: order === 0 }, node) ?? []).toSorted(byRank)

function choiceOf(
  candidates: readonly VariantCandidate[],
  { chosen, reason }: { chosen: VariantCandidate; reason: string },
  reasonOf: (candidate: VariantCandidate) => string,
): VariantChoice {
  const all = candidates.map((each) => ({ name: each.name, reason: each === chosen ? reason : reasonOf(each) }))
  return { chosen: chosen.name, reason, all }
}

interface RankedPair {
  readonly candidate: VariantCandidate
  readonly rank: readonly number[]
  readonly reason: string
}

const byRank = (a: RankedPair, b: RankedPair): number => {
  const at = a.rank.findIndex((each, index) => each !== b.rank[index])
  return at < 0 ? 0 : (a.rank[at] ?? 0) - (b.rank[at] ?? 0)
}

type Candidate = Readonly<{ candidate: VariantCandidate; order: number; isBase: boolean }>

/** Null when the build is out on this node. */
function rankPair({ candidate, order, isBase }: Candidate, node: VariantNode): RankedPair | null {
  const { backend, sizeBytes, tags } = candidate
  const suits = isForNode(backend, node.capability)
  const memory = memoryOf(node)
  const fits = sizeBytes === null ? null : neededBytes(sizeBytes) <= memory.bytes
  if (!isBase && (!suits || fits === false)) return null
  const fit = fits === true && suits ? 0 : fits === false || !suits ? 3 : isBase ? 1 : 2
  const engine = engineRank(backend, node.capability)
  const tag = tags.includes('dflash') ? 0 : tags.includes('mtp') ? 1 : 2
  return { candidate, rank: [fit, engine, tag, -(sizeBytes ?? 0), order], reason: reasonFor({ fit, sizeBytes, memory }, node) }
}

type Memory = Readonly<{ bytes: number; kind: 'GPU memory' | 'memory' }>

const memoryOf = ({ gpuBytes, ramBytes }: VariantNode): Memory =>
  gpuBytes > 0 ? { bytes: gpuBytes, kind: 'GPU memory' } : { bytes: ramBytes, kind: 'memory' }

/** Files, and a tenth for the context. */
const neededBytes = (sizeBytes: number): number => Math.ceil(sizeBytes * 1.1)

function reasonFor({ fit, sizeBytes, memory }: { fit: number; sizeBytes: number | null; memory: Memory }, { name }: VariantNode): string {
  const has = `${name} has ${formatBytes(memory.bytes)} of ${memory.kind}`
  if (sizeBytes === null) return `its size is unknown; ${has}`
  const needs = `it needs about ${formatBytes(neededBytes(sizeBytes))}`
  return fit === 0 ? `${needs}, and ${has}` : `${needs}, no other build fits, and ${has}`
}

const reasonOut =
  (nodes: readonly VariantNode[]) =>
  ({ backend, sizeBytes }: VariantCandidate): string => {
    if (!nodes.some(({ capability }) => isForNode(backend, capability))) return `no node has the hardware for ${backend}`
    const largest = Math.max(...nodes.map((node) => memoryOf(node).bytes))
    return `it needs about ${formatBytes(neededBytes(sizeBytes ?? 0))}; no node with the hardware for it has more than ${formatBytes(largest)}`
  }

/** Words in the name of a backend, and the capabilities that they are for. */
const hardware: readonly (readonly [words: RegExp, capability: RegExp])[] = [
  [/(?:^|-)(?:mlx|metal|darwin)(?:-|$)/, /^metal/],
  [/(?:^|-)l4t(?:-|$)/, /^nvidia-l4t/],
  [/(?:^|-)(?:cuda\d*|nvidia)(?:-|$)/, /^nvidia/],
  [/(?:^|-)(?:rocm\d*|hip|hipblas|amd)(?:-|$)/, /^amd/],
  [/(?:^|-)(?:sycl|intel)(?:-|$)/, /^intel/],
]

function isForNode(backend: string, capability: string): boolean {
  const [, wanted] = hardware.find(([words]) => words.test(backend)) ?? []
  return wanted === undefined || wanted.test(capability)
}

/** Preferred first. */
const engines: readonly (readonly [capability: RegExp, engines: readonly string[]])[] = [
  [/^(?:nvidia|amd|intel)/, ['vllm', 'sglang', 'llama-cpp']],
  [/^metal/, ['mlx', 'llama-cpp']],
  [/^vulkan/, ['llama-cpp']],
  [/^/, ['llama-cpp', 'vllm', 'sglang']],
]

function engineRank(backend: string, capability: string): number {
  const [, preferred = []] = engines.find(([form]) => form.test(capability)) ?? []
  const at = preferred.findIndex((engine) => backend.includes(engine))
  return at < 0 ? preferred.length : at
}
