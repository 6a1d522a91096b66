// From an offer per node to a plan per node. Each source is asked once per platform, several at once; whatever goes wrong
// does so here, before anything is queued.
import { inLanes } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { platformOf, formatPlatform, type Platform } from '@muster/source'
import type { Plan } from '../store/plan.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { NodeOffer } from './find-offer.ts'
import type { ResolvedSource, ResolveSource, Source } from './resolve-source.ts'

export type PlannedNode = Readonly<
  { node: NodeRecord; outcome: 'planned'; plan: Plan } | { node: NodeRecord; outcome: 'skipped'; reason: string }
>
export type OfferedNode = Readonly<{ node: NodeRecord; offer: NodeOffer }>

/** What all nodes have in common. */
export type Wish = Readonly<Pick<Plan, 'exact' | 'strategy'>>

type Answer = ResolvedSource | { readonly unfit: string }
const askAtOnce = 8

export async function planNodes(
  resolve: ResolveSource,
  { offers, wish }: { offers: readonly OfferedNode[]; wish: Wish },
  signal: AbortSignal,
): Promise<PlannedNode[]> {
  const answers = await askEach(resolve, offers, signal)
  return offers.map(({ node, offer }) => {
    if (offer.kind === 'unfit') return { node, outcome: 'skipped', reason: offer.reason }
    const platform = platformOfNode(node)
    const answer = (platform === null ? null : answers.get(keyOf(offer.source, platform))) ?? unasked(offer.source)
    if ('unfit' in answer) return { node, outcome: 'skipped', reason: answer.unfit }
    const { uri, mirrors } = offer.source
    const { name, alias, version, galleryUrl } = offer
    return { node, outcome: 'planned', plan: { uri, mirrors: [...mirrors], version, galleryUrl, name, alias, ...answer, ...wish } }
  })
}

/** Null when the worker does not say what it is: it finds out by itself what suits it. */
function platformOfNode({ os, arch }: Pick<NodeRecord, 'os' | 'arch'>): Platform | null {
  return os === '' || arch === '' ? null : platformOf({ platform: os, arch })
}

const unasked = ({ digest }: Source): ResolvedSource => ({ digest, sizeBytes: null })

const keyOf = (source: Source, platform: Platform): string =>
  JSON.stringify([source.uri, source.mirrors, source.sha256, source.digest, formatPlatform(platform)])

async function askEach(resolve: ResolveSource, offers: readonly OfferedNode[], signal: AbortSignal): Promise<Map<string, Answer>> {
  const questions = new Map<string, { source: Source; platform: Platform }>()
  for (const { node, offer } of offers) {
    const platform = platformOfNode(node)
    if (offer.kind === 'source' && platform !== null) questions.set(keyOf(offer.source, platform), { source: offer.source, platform })
  }
  const failing = new AbortController()
  const until = AbortSignal.any([signal, failing.signal])
  try {
    const found = await inLanes([...questions], { atOnce: askAtOnce }, async ([key, { source, platform }]): Promise<[string, Answer]> => {
      return [key, await resolve(source, platform, until).catch(unfitOrThrow)]
    })
    return new Map(found)
  } finally {
    failing.abort()
  }
}

function unfitOrThrow(error: unknown): Answer {
  if (error instanceof FleetError && error.failure.code === 'incompatible') return { unfit: error.failure.message }
  throw error
}
