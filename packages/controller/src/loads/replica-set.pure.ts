// Decides which loads a model has: how many, and which replace which. A change is a surge of one: a new replica comes up beside
// the old ones, and an old one ends when every controller routes to the new one. It compares rows with the model, and remembers
// nothing. Pure.
import type { Load, LoadEvent, ModelName, NodeId, Scheduling } from '@muster/protocol'
import type { ReadyFacts } from '../store/load-rows.ts'
import type { WantedModel } from '../store/loads.ts'

/** A load, with the facts about its replica if it is ready. */
export type Member<L extends Load = Load> = Readonly<{ load: L; ready: ReadyFacts | null }>
/**
 * `version`: its node uses another version of the backend now. `double`: a second replica where each node has one. `crowded`:
 * shares its node with another replica, while one comes up on a node without any.
 */
export type Stale = 'draining' | 'revision' | 'version' | 'double' | 'crowded'

export type AddedLoad = Readonly<{ model: ModelName; ordinal: number; pin: NodeId | null; needsCheck: boolean }>
export interface SetDecision {
  readonly add: readonly AddedLoad[]
  readonly events: readonly Readonly<{ load: Load; event: Extract<LoadEvent, { type: 'unwanted' | 'revision_changed' }> }>[]
}

const desiredOf = (model: WantedModel): number => desiredReplicas({ ...model, scheduling: model.config.scheduling }, model.matching)

/** False: the load is superfluous in any case. Otherwise decideSet decides for all loads of the model together. */
export function isWanted(load: Load, model: WantedModel): boolean {
  return load.purpose === 'stage' || desiredOf(model) > 0 || isToBeSeen(load, model)
}

/** A permanent failure stays visible until an administrator retries it. */
const isToBeSeen = (load: Load, { revision, isUnloaded }: WantedModel): boolean =>
  load.state === 'failed' && load.nextAt === null && load.revision === revision && !isUnloaded

/** Reason to replace the load; null: it is up to date, or not ready yet. */
export function staleOf({ load, ready }: Member, revision: string): Stale | null {
  if (load.state !== 'ready') return null
  if (ready?.isNodeDraining === true) return 'draining'
  if (load.revision !== revision) return 'revision'
  const isKnown = ready !== null && ready.digest !== null && ready.listed !== null
  return isKnown && ready.digest !== ready.listed ? 'version' : null
}

/** `spreadTo`: a node without a replica of the model that has room for one. */
export function decideSet(model: WantedModel, members: readonly Member[], spreadTo: NodeId | null = null): SetDecision {
  const wanted = desiredOf(model)
  const serve = members.filter(({ load }) => load.purpose === 'serve')
  if (wanted === 0) {
    const seen = byOrdinal(serve).find(({ load }) => isToBeSeen(load, model))
    return { add: [], events: serve.filter((member) => member !== seen).map(unwanted) }
  }
  if (spreadTo !== null && isCrowded(model, members)) return { add: [spreading(model, serve, spreadTo)], events: [] }
  const judged = withCrowd(
    wanted,
    withDoubles(
      model,
      serve.map((member): JudgedMember => ({ ...member, stale: staleOf(member, model.revision) })),
    ),
  )
  const fresh = judged.filter(({ stale }) => stale === null).toSorted(byUse)
  const kept = fresh.slice(0, wanted)
  const old = judgeOld(judged, kept, wanted)
  const add = added(model, { kept, staying: old.staying, wanted, taken: new Set(serve.map(({ load }) => load.ordinal)) })
  const changed = kept.filter(({ load }) => load.revision !== model.revision)
  return {
    add,
    events: [
      ...[...fresh.slice(wanted), ...old.leaving].map(unwanted),
      ...changed.map(({ load }) => ({ load, event: { type: 'revision_changed', revision: model.revision } as const })),
    ],
  }
}

/** All desired replicas serve, none is to be replaced, and some share a node. */
export function isCrowded(model: WantedModel, members: readonly Member[]): boolean {
  const serve = members.filter(({ load }) => load.purpose === 'serve')
  const areSettled = serve.every((member) => isAdmitted(member) && staleOf(member, model.revision) === null)
  return areSettled && serve.length === desiredOf(model) && model.config.scheduling.replicas !== 'all' && crowdOf(serve).length > 0
}

const crowdOf = <M extends Member>(members: readonly M[]): M[] => {
  const ready = members.filter(({ load }) => load.state === 'ready')
  return ready.filter((member) => ready.some((other) => other !== member && nodeOf(other) === nodeOf(member)))
}

const nodeOf = ({ load }: Member): NodeId | null => ('nodeId' in load ? load.nodeId : null)

const spreading = ({ name }: WantedModel, serve: readonly Member[], pin: NodeId): AddedLoad => {
  const [ordinal = serve.length] = unusedOrdinals(new Set(serve.map(({ load }) => load.ordinal)), 1)
  return { model: name, ordinal, pin, needsCheck: true }
}

/** As many others serve as are desired: nothing ends for this load, and it ends itself where it finds no room. */
export function isSpare(load: Load, model: WantedModel, members: readonly Member[]): boolean {
  const others = members.filter((member) => member.load.purpose === 'serve' && member.load.ordinal !== load.ordinal)
  return others.filter((member) => isServing(member) && staleOf(member, model.revision) === null).length >= desiredOf(model)
}

export type Endable = Readonly<{ olds: readonly Member<Extract<Load, { state: 'ready' }>>[]; when: 'now' | 'soon' | 'not' }>

/**
 * Stale replicas that could end before the new one is ready, where there is no room for both. One may only while as many serve as
 * are wanted, so at most one is missing, and the next one ends only when that one is replaced. A replica on a draining node
 * serves on until there is room elsewhere.
 */
export function endableFor(load: Load, model: WantedModel, members: readonly Member[]): Endable {
  const wanted = desiredOf(model)
  const serve = members.filter((member) => member.load.purpose === 'serve')
  const judged = serve.map((member): JudgedMember => ({ ...member, stale: staleOf(member, model.revision) }))
  const kept = judged
    .filter(({ stale }) => stale === null)
    .toSorted(byUse)
    .slice(0, wanted)
  const old = judged.filter((member) => member.stale !== null && isServing(member))
  const olds = old.flatMap((member) =>
    member.load.state === 'ready' && member.stale !== 'draining' ? [{ ...member, load: member.load }] : [],
  )
  if (kept.filter(isAdmitted).length + old.length >= wanted) return { olds, when: 'now' }
  const others = kept.filter((member) => member.load.ordinal !== load.ordinal && !isAdmitted(member))
  // Loads that never had room are not missing: as many replicas serve as there is room for.
  const areAllThere = judged.every((member) => member.stale === null || isServing(member))
  const neverFit = others.every((member) => isWithoutPlace(member.load) && !member.load.isRoomMade)
  if (areAllThere && neverFit && !load.isRoomMade) return { olds, when: 'now' }
  return { olds, when: others.some((member) => member.load.state !== 'failed') ? 'soon' : 'not' }
}

const isWithoutPlace = (load: Load): boolean => load.state === 'failed' && load.failure.code === 'no_capacity'

type JudgedMember = Member & Readonly<{ stale: Stale | null }>

/** With `replicas: all` a second replica on a node is misplaced, and serves until it is replaced elsewhere. */
function withDoubles({ config }: WantedModel, judged: readonly JudgedMember[]): readonly JudgedMember[] {
  if (config.scheduling.replicas !== 'all') return judged
  const taken = new Set<NodeId>()
  const doubles = new Set<JudgedMember>()
  for (const member of judged.filter(({ stale }) => stale === null).toSorted(byUse)) {
    if (member.load.state !== 'ready') continue
    if (taken.has(member.load.nodeId)) doubles.add(member)
    taken.add(member.load.nodeId)
  }
  return judged.map((member) => (doubles.has(member) ? { ...member, stale: 'double' } : member))
}

/**
 * One of the replicas that share a node is replaced by one that comes up on another node. It serves until that one is admitted. If
 * that one fails, all stay, and it is the one too many. With more than one too many, the number changed: all of them end first.
 */
function withCrowd(wanted: number, judged: readonly JudgedMember[]): readonly JudgedMember[] {
  const fresh = judged.filter(({ stale }) => stale === null).toSorted(byUse)
  const isSpreading = (member: JudgedMember): boolean =>
    member.load.pin !== null &&
    member.load.state !== 'failed' &&
    !fresh.some((other) => other !== member && nodeOf(other) === member.load.pin)
  const last = crowdOf(fresh).at(-1)
  if (fresh.length !== wanted + 1 || last === undefined || !fresh.some(isSpreading)) return judged
  return judged.map((member) => (member === last ? { ...member, stale: 'crowded' } : member))
}

const unwanted = ({ load }: Member) => ({ load, event: { type: 'unwanted' } as const })
const byOrdinal = <M extends Member>(members: readonly M[]): M[] => members.toSorted((a, b) => a.load.ordinal - b.load.ordinal)
const isServing = ({ load, ready }: Member): boolean =>
  load.state === 'ready' && ready !== null && ready.checked === 'passed' && ready.isReachable
const isAdmitted = (member: Member): boolean => isServing(member) && member.ready?.isAdmitted === true

/** The most useful first: superfluous ones end from the other side. */
const byUse = (a: JudgedMember, b: JudgedMember): number => useOf(b) - useOf(a) || a.load.ordinal - b.load.ordinal

const uses: readonly Load['state'][] = ['failed', 'waiting', 'installing', 'starting', 'ready']
const useOf = (member: JudgedMember): number => uses.indexOf(member.load.state) + Number(isServing(member)) + Number(isAdmitted(member))

/** `staying`: in the order of replacement. */
type OldReplicas = Readonly<{ leaving: readonly JudgedMember[]; staying: readonly JudgedMember[] }>

/** A stale replica ends when enough others serve without it; one that never passed its check ends at once. */
function judgeOld(judged: readonly JudgedMember[], kept: readonly JudgedMember[], wanted: number): OldReplicas {
  const stale = judged.filter((member) => member.stale !== null)
  const admitted = kept.filter(isAdmitted)
  const replaced = new Set(admitted.map(({ load }) => load.pin))
  const order = stale.filter(isServing).toSorted((a, b) => rankOf(a, replaced) - rankOf(b, replaced) || b.load.ordinal - a.load.ordinal)
  const surplus = Math.max(0, admitted.length + order.length - wanted)
  return {
    leaving: [...stale.filter(({ ready }) => ready?.checked !== 'passed'), ...order.slice(0, surplus)],
    // Replicas on absent nodes count until their loads leave the node.
    staying: [...order.slice(surplus), ...stale.filter((member) => member.ready?.checked === 'passed' && !isServing(member))],
  }
}

function rankOf({ load, stale }: JudgedMember, replaced: ReadonlySet<NodeId | null>): number {
  if (stale === 'draining') return 0
  if (load.state === 'ready' && replaced.has(load.nodeId)) return 1
  return stale === 'version' ? 2 : 3
}

interface MissingReplicas {
  readonly kept: readonly JudgedMember[]
  readonly staying: readonly JudgedMember[]
  readonly wanted: number
  readonly taken: ReadonlySet<number>
}

function added(model: WantedModel, { kept, staying, wanted, taken }: MissingReplicas): AddedLoad[] {
  const count = Math.max(0, Math.min(wanted, wanted + 1 - staying.length) - kept.length)
  const pins = pinsFor(model, staying, kept)
  const ordinals = unusedOrdinals(taken, count)
  return ordinals.map((ordinal, index) => ({ model: model.name, ordinal, pin: pins[index] ?? null, needsCheck: staying.length > 0 }))
}

/** Nodes for the next loads: where the new version is, or the only node where the model may run. */
function pinsFor({ config }: WantedModel, staying: readonly JudgedMember[], kept: readonly JudgedMember[]): (NodeId | null)[] {
  const isEverywhere = config.scheduling.replicas === 'all'
  // The old replica of an admitted one has ended, or ends now.
  const pinned = kept.flatMap((member) => (isAdmitted(member) ? [] : (member.load.pin ?? [])))
  const there = new Set(kept.flatMap(({ load }) => (load.state === 'ready' ? [load.nodeId] : [])))
  return staying.flatMap(({ load, stale }) => {
    const isTied = load.state === 'ready' && (stale === 'version' || (isEverywhere && stale === 'revision'))
    // That node has its replica already: this one is missing elsewhere.
    if (!isTied || (isEverywhere && there.has(load.nodeId))) return [null]
    const index = pinned.indexOf(load.nodeId)
    if (index === -1) return [load.nodeId]
    pinned.splice(index, 1)
    return []
  })
}

function unusedOrdinals(taken: ReadonlySet<number>, count: number): number[] {
  const free: number[] = []
  for (let ordinal = 0; free.length < count; ordinal += 1) if (!taken.has(ordinal)) free.push(ordinal)
  return free
}

export interface Demand {
  readonly scheduling: Scheduling
  /** Demanded by requests and `load`. */
  readonly requestedReplicas: number
  /** Unloaded by hand. */
  readonly isUnloaded: boolean
}

/** `matching`: the number of eligible nodes, for `replicas: all`. */
export function desiredReplicas({ scheduling, requestedReplicas, isUnloaded }: Demand, matching: number): number {
  if (isUnloaded || scheduling.disabled === true) return 0
  // At least one without an eligible node: its load shows the reason, and a replica on a draining node keeps serving.
  if (scheduling.replicas === 'all') return Math.max(1, matching)
  const { min, max } = limitsOf(scheduling)
  return Math.min(max, Math.max(min, requestedReplicas))
}

/** How many replicas `load` requests: one, or the model's minimum, or one for every node that the model may run on. */
export function replicasToLoad(scheduling: Scheduling, matching: number): number {
  return Math.max(1, scheduling.replicas === 'all' ? matching : limitsOf(scheduling).min)
}

/** With defaults: at most one, unless the minimum is higher. */
export function limitsOf({ min_replicas: min = 0, max_replicas: max = Math.max(1, min) }: Scheduling): { min: number; max: number } {
  return { min, max: max === 0 ? Number.POSITIVE_INFINITY : max }
}
