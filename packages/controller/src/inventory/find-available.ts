// Finds the builds that galleries and registries offer for every installed backend, once per backend and kind of node.
import { inLanes } from '@muster/host'
import { failureOf, type BackendName } from '@muster/protocol'
import { platformOf, type Platform } from '@muster/source'
import type { Offers } from '../gallery/catalogue.ts'
import { upgradeOffer } from '../gallery/planners.ts'
import type { ResolveSource, Source } from '../gallery/resolve-source.ts'
import type { AvailableBackend } from '../store/galleries.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { installedOf, kindOfNode } from './fleet-backends.ts'

export type UpgradeProblem = Readonly<{ backend: string | null; message: string }>
export type FoundAvailable = Readonly<{
  found: readonly AvailableBackend[]
  unknown: readonly Readonly<{ backend: string; platform: string }>[]
  problems: readonly UpgradeProblem[]
}>

type Question = Readonly<{ backend: BackendName; concrete: string; kind: string; version: string; platform: Platform; source: Source }>
type UnresolvedSource = Readonly<{ backend: BackendName; kind: string; problem: string }>

const resolveAtOnce = 8

export async function findAvailable(
  { offered, resolve, signal }: { offered: Offers; resolve: ResolveSource; signal: AbortSignal },
  nodes: readonly NodeRecord[],
): Promise<FoundAvailable> {
  const { questions, unclear } = questionsOf(offered, nodes)
  const resolved = new Map<string, ReturnType<ResolveSource>>()
  const resolveOnce = ({ source, platform }: Question): ReturnType<ResolveSource> => {
    const key = JSON.stringify([source, platform])
    const answer = resolved.get(key) ?? resolve(source, platform, signal)
    resolved.set(key, answer)
    return answer
  }
  const found: AvailableBackend[] = []
  await inLanes(questions, { atOnce: resolveAtOnce }, async (question) => {
    const { backend, concrete, kind, version, source } = question
    try {
      const { digest } = await resolveOnce(question)
      if (digest !== null) found.push({ backend, concrete, platform: kind, uri: source.uri, digest, version })
      else unclear.push({ backend, kind, problem: unreadHere(backend, source) })
    } catch (error) {
      unclear.push({ backend, kind, problem: failureOf(error).message })
    }
  })
  return {
    found,
    unknown: unclear.map(({ backend, kind }) => ({ backend, platform: kind })),
    problems: [...offered.problems.map(({ failure }) => ({ backend: null, message: failure.message })), ...problemsOf(unclear)],
  }
}

/** A path on the nodes: a controller reads the source only by an upgrade. */
const unreadHere = (backend: BackendName, { uri }: Source): string =>
  `${uri} is a path on the nodes, and only an upgrade reads it there: muster backends upgrade ${backend}`

/** One sentence per backend and reason, for all kinds of nodes together. */
function problemsOf(unclear: readonly UnresolvedSource[]): UpgradeProblem[] {
  const keys = unclear.map(({ backend, problem }) => JSON.stringify([backend, problem]))
  return unclear
    .filter((_, index) => keys.indexOf(keys[index] ?? '') === index)
    .map(({ backend, problem }) => ({ backend, message: problem }))
}

function questionsOf(offered: Offers, nodes: readonly NodeRecord[]): { questions: Question[]; unclear: UnresolvedSource[] } {
  const questions = new Map<string, Question>()
  const unclear: UnresolvedSource[] = []
  for (const [backend, installed] of installedOf(nodes, [])) {
    for (const { node } of installed) {
      const kind = kindOfNode(node)
      const platform = platformOf({ platform: node.os, arch: node.arch })
      const offer = upgradeOffer(offered, backend, { node, openPlan: null })
      if (offer.kind === 'unread') unclear.push({ backend, kind, problem: `cannot check ${backend} for updates: ${offer.reason}` })
      if (offer.kind !== 'source' || node.os === '' || node.arch === '') continue
      const { source, version, name, isListed } = offer
      const concrete = isListed ? (name ?? backend) : source.uri
      // The recorded version is that of the installed build, not of the offered one.
      const says = isListed ? version : ''
      questions.set(JSON.stringify([backend, concrete, kind]), { backend, concrete, kind, version: says, platform, source })
    }
  }
  return { questions: [...questions.values()], unclear }
}
