// Plans installs and upgrades: one plan per node that fits, a reason for each node that does not. Sources are resolved here,
// before anything is queued.
import { abortable, type Clock, inLanes, type Log } from '@muster/host'
import { type BackendName, FleetError, type InstallRequest, parseBackendReference, type Strategy } from '@muster/protocol'
import { createSourceClients, formatPlatform, openSourceAccess, type Platform, platformOf, type SourceSettings } from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { builtinGalleryName, type ControllerSettings } from '../settings.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { Plan } from '../store/intent-rows.ts'
import type { Store } from '../store/store.ts'
import {
  type Catalogue,
  createCatalogue,
  findOffer,
  galleryAt,
  isOffered,
  type NodeOffer,
  type Offers,
  unknownBackend,
} from './catalogue.ts'
import {
  createResolveSource,
  invalidSource,
  type ResolvedSource,
  type ResolveSource,
  type Source,
  SourceUnavailable,
} from './resolve-source.ts'

interface PlannersDeps {
  readonly settings: Pick<ControllerSettings, 'allowSource'> & SourceSettings
  readonly env: Readonly<Record<string, string | undefined>>
  readonly store: Pick<Store, 'galleries'>
  readonly builtin: Promise<BuiltinBlobs>
  readonly stopping: AbortSignal
  readonly clock: Clock
  readonly log: Log
}

export function createPlanners({ settings, env, store, builtin, stopping, clock, log }: PlannersDeps) {
  const access = openSourceAccess(settings, { env, log })
  const { outbound, oci } = createSourceClients({ allow: [...settings.allowSource], access, clock, log })
  const catalogue = createCatalogue({ galleries: store.galleries, builtin, outbound, stopping, clock })
  const resolve = createResolveSource({ outbound, oci, builtin, clock })
  const arrivalOf = async (backend: string): Promise<Promise<void> | null> => {
    const blobs = await builtin
    return blobs.missing().includes(backend) ? blobs.completed : null
  }
  return {
    outbound,
    catalogue,
    resolve,
    planInstall: createPlanInstall({ catalogue, resolve, arrivalOf }),
    /** A built-in backend that is still being assembled. */
    isAssembling: async (backend: string) => (await builtin).missing().includes(backend),
    planUpgrade: createPlanUpgrade({ catalogue, resolve }),
  }
}

export interface PlannerDeps {
  readonly catalogue: Catalogue
  readonly resolve: ResolveSource
  /** Resolves when a backend that is being assembled is offered; null for all others. */
  readonly arrivalOf?: (backend: BackendName) => Promise<Promise<void> | null>
}

/** As in the request body. `from`: the gallery to look in when `backend` names none; an intact build of another one is kept. */
export type InstallTarget = Readonly<Pick<InstallRequest, 'backend' | 'uri' | 'name' | 'alias' | 'digest' | 'version'>> &
  Readonly<{ from?: string | null }>
export type InstallPlan = Readonly<{
  /** The backend's name in intents. */
  backend: BackendName
  nodes: readonly NodePlan[]
}>
export type PlanInstall = (target: InstallTarget, nodes: readonly NodeRecord[], signal: AbortSignal) => Promise<InstallPlan>

/** Throws SourceUnavailable, SourceForbidden or another FleetError. */
export function createPlanInstall(deps: PlannerDeps): PlanInstall {
  const { resolve } = deps
  return async (target, nodes, signal) => {
    const { backend, offerFor, isGalleryNamed } =
      target.uri === undefined ? await fromGallery(target, deps, signal) : fromUri(target, target.uri)
    const { digest, version } = target
    const exact = digest !== undefined || version !== undefined || isGalleryNamed
    const offers = nodes.map((node) => ({ node, offer: offerFor(node) }))
    return { backend, nodes: await planNodes(resolve, { offers, common: { exact, strategy: null } }, signal) }
  }
}

type InstallOffer = Readonly<{
  backend: BackendName
  offerFor: (node: NodeRecord) => NodeOffer
  /** Then the build of another gallery is replaced. */
  isGalleryNamed: boolean
}>

async function fromGallery(
  { backend: reference, from = null, digest, version }: InstallTarget,
  { catalogue, arrivalOf }: PlannerDeps,
  signal: AbortSignal,
): Promise<InstallOffer> {
  if (reference === undefined) throw invalidSource('no backend is named; set "backend", or "uri" and "name"')
  const { gallery: named, backend } = parseBackendReference(reference)
  const gallery = named ?? from
  let offers: Offers = await catalogue()
  const mayArrive = gallery === null || gallery === builtinGalleryName
  const arrival = mayArrive ? ((await arrivalOf?.(backend)) ?? null) : null
  if (arrival !== null) {
    await abortable(arrival, signal)
    offers = await catalogue()
  }
  if (!isOffered(offers, backend, gallery)) throw unknownBackend(offers, backend, gallery)
  const query = { backend, gallery, digest: digest ?? null, version: version ?? null }
  return { backend, offerFor: (node) => findOffer(offers, query, node), isGalleryNamed: named !== null }
}

function fromUri({ name, alias, digest, version }: InstallTarget, uri: string): InstallOffer {
  if (name === undefined) throw invalidSource('a URI needs the name to install it under')
  const source = { uri, mirrors: [], sha256: '', digest: digest ?? null }
  const offer: NodeOffer = {
    kind: 'source',
    source,
    version: version ?? '',
    galleryUrl: '',
    name: null,
    alias: alias ?? null,
    isListed: false,
  }
  return { backend: name, offerFor: () => offer, isGalleryNamed: false }
}

type UpgradeTarget = Readonly<{ node: NodeRecord; /** Of an install that is still open there. */ openPlan: Plan | null }>
type UpgradeQuery = Readonly<{ backend: BackendName; strategy: Strategy | null }>
export type PlanUpgrade = (query: UpgradeQuery, targets: readonly UpgradeTarget[], signal: AbortSignal) => Promise<NodePlan[]>

/** Plans the content that the source offers now, on nodes that have the backend or an open install. Throws as an install does. */
export function createPlanUpgrade({ catalogue, resolve }: PlannerDeps): PlanUpgrade {
  return async ({ backend, strategy }, targets, signal) => {
    const current = await catalogue()
    const offers = targets.map((target) => ({ node: target.node, offer: upgradeOffer(current, backend, target) }))
    return await planNodes(resolve, { offers, common: { exact: false, strategy } }, signal)
  }
}

/**
 * An upgrade looks in the gallery of the install while it is configured, else in all galleries. A backend that is not there is
 * upgraded from its recorded source, if all these galleries could be read.
 */
export function upgradeOffer(offers: Offers, backend: BackendName, { node, openPlan }: UpgradeTarget): NodeOffer {
  const record = node.inventory.find(({ name }) => name === backend)
  const gallery = galleryAt(offers, openPlan?.galleryUrl ?? record?.gallery_url ?? '')
  const offer = findOffer(offers, { backend, gallery, digest: null, version: null }, node)
  if (isOffered(offers, backend, gallery) || offer.kind === 'unread') return offer
  const reason = `no gallery offers ${backend}, and node ${node.name} has no recorded source for it`
  return offerOfRecord({ backend, node, openPlan }) ?? { kind: 'unfit', reason }
}

function offerOfRecord({ backend, node, openPlan }: UpgradeTarget & { readonly backend: BackendName }): NodeOffer | null {
  const record = node.inventory.find(({ name }) => name === backend)
  const uri = openPlan?.uri ?? record?.uri ?? ''
  if (uri === '') return null
  const digest = openPlan?.digest ?? record?.digest ?? ''
  const sha256 = /^https?:/i.test(uri) ? digest.replace(/^sha256:/, '') : ''
  const mirrors = openPlan?.mirrors ?? []
  const { name = null, alias = null, version = record?.version ?? '' } = openPlan ?? {}
  return {
    kind: 'source',
    source: { uri, mirrors, sha256, digest: null },
    version,
    galleryUrl: openPlan?.galleryUrl ?? record?.gallery_url ?? '',
    name,
    alias,
    isListed: false,
  }
}

export type NodePlan = Readonly<
  { node: NodeRecord; outcome: 'planned'; plan: Plan } | { node: NodeRecord; outcome: 'skipped'; reason: string }
>
type OfferForNode = Readonly<{ node: NodeRecord; offer: NodeOffer }>

/** Fields shared by the plans of all nodes. */
type CommonPlan = Readonly<Pick<Plan, 'exact' | 'strategy'>>

type Resolution = ResolvedSource | { readonly unfit: string }
const resolvesAtOnce = 8

async function planNodes(
  resolve: ResolveSource,
  { offers, common }: { offers: readonly OfferForNode[]; common: CommonPlan },
  signal: AbortSignal,
): Promise<NodePlan[]> {
  for (const { offer } of offers) if (offer.kind === 'unread') throw new SourceUnavailable(offer.reason)
  const answers = await resolveEach(resolve, offers, signal)
  return offers.map(({ node, offer }) => {
    if (offer.kind !== 'source') return { node, outcome: 'skipped', reason: offer.reason }
    const platform = platformOfNode(node)
    const answer = (platform === null ? null : answers.get(keyOf(offer.source, platform))) ?? unresolved(offer.source)
    if ('unfit' in answer) return { node, outcome: 'skipped', reason: answer.unfit }
    const { uri, mirrors } = offer.source
    const { name, alias, version, galleryUrl } = offer
    return { node, outcome: 'planned', plan: { uri, mirrors: [...mirrors], version, galleryUrl, name, alias, ...answer, ...common } }
  })
}

/** Null when the worker does not report its platform: it resolves the source on its own. */
function platformOfNode({ os, arch }: Pick<NodeRecord, 'os' | 'arch'>): Platform | null {
  return os === '' || arch === '' ? null : platformOf({ platform: os, arch })
}

const unresolved = ({ digest }: Source): ResolvedSource => ({ digest, sizeBytes: null })

const keyOf = (source: Source, platform: Platform): string =>
  JSON.stringify([source.uri, source.mirrors, source.sha256, source.digest, formatPlatform(platform)])

async function resolveEach(resolve: ResolveSource, offers: readonly OfferForNode[], signal: AbortSignal): Promise<Map<string, Resolution>> {
  const queries = new Map<string, { source: Source; platform: Platform }>()
  for (const { node, offer } of offers) {
    const platform = platformOfNode(node)
    if (offer.kind === 'source' && platform !== null) queries.set(keyOf(offer.source, platform), { source: offer.source, platform })
  }
  const resolved = await inLanes(
    [...queries],
    { atOnce: resolvesAtOnce, signal },
    async ([key, { source, platform }], { signal: until }): Promise<[string, Resolution]> => [
      key,
      await resolve(source, platform, until).catch(unfitOrThrow),
    ],
  )
  return new Map(resolved)
}

function unfitOrThrow(error: unknown): Resolution {
  if (error instanceof FleetError && error.failure.code === 'incompatible') return { unfit: error.failure.message }
  throw error
}
