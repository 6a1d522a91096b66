// Carries out the decision about a claimed load, within its lease: chooses a node, makes room there, submits the install of the
// backend, sends the command, or queries the worker. Every step may have been done before by a controller that died since.
import type { Bus } from '@muster/bus'
import { type Clock, type Log, newId, type Step } from '@muster/host'
import {
  type BackendName,
  type Failure,
  failureOf,
  FleetError,
  type Load,
  type LoadEvent,
  type ModelConfig,
  type ModelFile,
  modelLoad,
  type NodeId,
  ofSource,
  OperationId,
  ReplicaId,
  unreachable,
} from '@muster/protocol'
import { statusOf } from '../nodes/view.ts'
import type { Placement } from '../placement/placement.pure.ts'
import type { PlacementChoice, PlacementRequest, Placer } from '../placement/placer.ts'
import { replicaPrefix, returnOf } from '../replicas/replicas.pure.ts'
import type { Read } from '../store/intents.ts'
import type { ListedLoad, LoadRecord } from '../store/load-rows.ts'
import type { LoadStore, WantedModel } from '../store/loads.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { PulseStore } from '../store/pulses.ts'
import type { ReplicaStore } from '../store/replicas.ts'
import { loadOpPrefix, tickOf } from '../work/exchange.pure.ts'
import { queryStatus, requestCancel, type RequestError, requestErrorOf } from '../work/exchange.ts'
import type { Advance, Demands } from './load-work.ts'
import {
  afterRoomMs,
  decideLoad,
  type Decision,
  eventOfRefusal,
  eventOfReply,
  eventOfSilence,
  eventOfStatus,
  type InstallStanding,
  isTaken,
  type OldReplica,
  type StepDetail,
  type World,
} from './loads.pure.ts'
import { type Endable, endableFor, isSpare, isWanted } from './replica-set.pure.ts'

/** The contract gives workers 2 s to accept. */
const replyTimeoutMs = 3_000
/** After a request whose outcome is unknown. */
const againInMs = 1_000
/** Choices of a node, when other loads take the chosen one first. */
const maxChoices = 4

export interface ApplyDeps {
  readonly bus: Bus
  readonly loads: LoadStore
  readonly replicas: Pick<ReplicaStore, 'find' | 'findReturned' | 'liveOn'>
  readonly nodes: Pick<NodeStore, 'find'>
  readonly pulses: Pick<PulseStore, 'recordNoResponders'>
  readonly demand: Demands
  readonly advance: Advance
  /** For one decision: nodes and replicas are read once, however often it places. */
  readonly placing: () => Placer
  /** The name under which a backend is listed. */
  readonly listedName: (backend: BackendName) => Promise<BackendName>
  /** True while a built-in backend is still being assembled. */
  readonly isAssembling: (backend: BackendName) => Promise<boolean>
  /** Submits the install of a backend on one node, or joins an open one; returns its operation. */
  readonly install: (wanted: { model: WantedModel; nodeId: NodeId; signal: AbortSignal }) => Promise<OperationId>
  readonly installStanding: (installId: OperationId, nodeId: NodeId) => Promise<InstallStanding>
  /** Files that the worker downloads, with their sources. */
  readonly filesFor: (config: ModelConfig, nodeId: NodeId) => Promise<ModelFile[]>
  /** Read at each use, as is `stallMs`. */
  readonly quietMs: number
  readonly stallMs: number
  readonly step: Step
  readonly onEvicted: (count: number) => void
  readonly clock: Clock
  readonly log: Log
}
export type Apply = (claimed: LoadRecord, now: number, signal: AbortSignal) => Promise<void>

interface ClaimedLoad {
  readonly record: LoadRecord
  readonly now: () => number
  readonly signal: AbortSignal
}

export function createApply(deps: ApplyDeps): Apply {
  return async (record, claimedAt, signal) => {
    const began = deps.clock.monotonic()
    const claimed: ClaimedLoad = { record, now: () => claimedAt + (deps.clock.monotonic() - began), signal }
    await deps.step('RT.job.claimed')
    await decideAndApply(claimed, deps)
  }
}

async function decideAndApply(claimed: ClaimedLoad, deps: ApplyDeps, choices = 1): Promise<void> {
  const { world, ...found } = await observe(claimed, deps)
  const decision = decideLoad(claimed.record.load, world)
  const outcome = await carryOut(decision, { claimed, ...found }, deps)
  if (outcome === 'done' || !(await isUnchanged(claimed, deps))) return
  if (choices < maxChoices) return await decideAndApply(claimed, deps, choices + 1)
  await move(claimed, { type: 'room_requested', made: null, againInMs: afterRoomMs }, deps)
}

type Observation = Readonly<{ model: WantedModel | null; world: World; set: Read<ListedLoad> }> & Chosen

async function observe({ record: { load } }: ClaimedLoad, deps: ApplyDeps): Promise<Observation> {
  const model = await modelOf(load, deps)
  const isAssembling = model !== null && (await deps.isAssembling(model.backend))
  const nodeId = 'nodeId' in load ? load.nodeId : null
  const node = nodeId === null || load.state === 'failed' ? null : await deps.nodes.find(nodeId)
  const isNodeHealthy = node !== null && statusOf(node).status === 'healthy'
  const isUnplaced = load.state === 'waiting' || load.state === 'failed'
  const place = deps.placing()
  const { placement, seen, bookingOn } = isUnplaced && model !== null ? await placeOf(load, model, place) : unplaced
  const {
    old,
    isSpare: isLoadSpare,
    set,
  } = model === null ? noReplacement : await findReplaced({ load, model, placement }, { loads: deps.loads, place })
  // Read after the nodes: when placement sees a node that returned, its replicas are visible here too.
  const unowned = isUnplaced && load.purpose === 'serve' ? await deps.replicas.findReturned(load) : null
  const returned = unowned === null ? null : returnOf(unowned)
  const install = load.state === 'installing' ? await deps.installStanding(load.installId, load.nodeId) : null
  const known = model === null ? null : { name: model.name, revision: model.revision, isWanted: isWanted(load, model) }
  const world = { model: known, isNodeHealthy, placement, returned, install, isAssembling, old, isSpare: isLoadSpare }
  return { model, seen, bookingOn, set, world }
}

/** Reads the model, with the listed name of its backend: the one in intents and inventories, which may be that of a meta backend. */
async function modelOf({ model: name }: Load, { demand, listedName }: ApplyDeps): Promise<WantedModel | null> {
  const model = await demand.find(name)
  if (model === null) return null
  const backend = await listedName(model.backend)
  return { ...model, backend, config: { ...model.config, backend } }
}

type Task = Readonly<{ claimed: ClaimedLoad }> & Omit<Observation, 'world'>
/** `outdated`: the facts behind the decision have changed. */
type Outcome = 'done' | 'outdated'

async function carryOut(decision: Decision, { claimed, model, seen, bookingOn, set }: Task, deps: ApplyDeps): Promise<Outcome> {
  switch (decision.do) {
    case 'step': {
      const moved = await move(claimed, decision.event, deps)
      return moved === null && decision.event.type === 'returned' ? 'outdated' : 'done'
    }
    case 'install':
      if (model !== null) await submitInstall(decision.nodeId, { claimed, model }, deps)
      return 'done'
    case 'start':
      return model === null ? 'done' : await start(decision, { claimed, model, seen, bookingOn }, deps)
    case 'evict':
      await move(
        claimed,
        { type: 'room_requested', made: await evictFor(claimed.record.load, decision, deps), againInMs: afterRoomMs },
        deps,
      )
      return 'done'
    case 'recreate':
      if (!(await endFirst(decision.old, set, deps))) return 'outdated'
      await move(claimed, { type: 'room_requested', made: decision.note, againInMs: afterRoomMs }, deps)
      return 'done'
    case 'query':
      if (model !== null) await query({ claimed, model }, deps)
      return 'done'
    case 'nothing':
      return 'done'
  }
}

/** No other controller has changed the load. */
async function isUnchanged({ record: { load, version }, signal }: ClaimedLoad, { loads }: ApplyDeps): Promise<boolean> {
  return !signal.aborted && (await loads.find(load)).rows[0]?.version === version
}

/** Applies an event to the claimed load; does nothing if the load has changed since. */
async function move(claimed: ClaimedLoad, event: LoadEvent, { advance, loads }: ApplyDeps, detail: StepDetail = {}): ReturnType<Advance> {
  const { load, version } = claimed.record
  let isFirst = true
  return await advance({
    read: async () => {
      const given = isFirst
      isFirst = false
      if (given) return { now: claimed.now(), rows: [claimed.record] }
      const { now, rows } = await loads.find(load)
      return { now, rows: rows.filter((row) => row.version === version) }
    },
    eventOf: () => event,
    detail,
  })
}

type Target = Readonly<{ claimed: ClaimedLoad; model: WantedModel }>

async function submitInstall(nodeId: NodeId, { claimed, model }: Target, deps: ApplyDeps): Promise<void> {
  try {
    const installId = await deps.install({ model, nodeId, signal: claimed.signal })
    await deps.step('RT.job.install_submitted')
    await move(claimed, { type: 'install_submitted', nodeId, installId }, deps)
  } catch (error) {
    if (claimed.signal.aborted) return
    if (!(error instanceof Error)) throw error
    await move(claimed, { type: 'failed', failure: ofSource(failureOf(error), 'backend') }, deps)
  }
}

type StartDecision = Extract<Decision, { do: 'start' }>

async function start(
  { nodeId, warning }: StartDecision,
  { claimed, model, seen, bookingOn }: Target & Chosen,
  deps: ApplyDeps,
): Promise<Outcome> {
  const { load } = claimed.record
  const replicaId = load.purpose === 'stage' ? null : ReplicaId.parse(newId(replicaPrefix))
  const opId = OperationId.parse(newId(loadOpPrefix))
  const detail = { started: { backend: model.backend, config: model.config, seen: seen.get(nodeId) ?? [], booking: bookingOn(nodeId) } }
  const placed = await move(claimed, { type: 'placed', nodeId, opId, replicaId, note: warning }, deps, detail)
  if (placed === 'crowded') return 'outdated'
  await deps.step('RT.job.placed')
  if (warning !== undefined)
    deps.log.warn('replica placed on a disk that looks too small', { model: model.name, node: nodeId, reason: warning })
  if (placed !== null && placed !== 'gone') await send({ claimed: { ...claimed, record: placed }, model }, deps)
  return 'done'
}

/** The same command again is the same load: the worker identifies it by the replica's id. */
async function send({ claimed, model }: Target, deps: ApplyDeps): Promise<void> {
  const { load } = claimed.record
  if (load.state !== 'starting') return
  const event = await exchange(load, { claimed, model }, deps)
  await deps.step('RT.job.mid')
  if (event !== null) await move(claimed, event, deps)
}

async function exchange(
  load: Extract<Load, { state: 'starting' }>,
  { claimed, model }: Target,
  deps: ApplyDeps,
): Promise<LoadEvent | null> {
  const { nodeId: node, opId, epoch } = load
  // The slot distinguishes the processes of the model on that node. A load that only stages files has none.
  const slot = load.replicaId === null ? load.ordinal : ((await deps.replicas.find(load.replicaId))?.slot ?? load.ordinal)
  try {
    const reply = await deps.bus.request(
      modelLoad,
      { node },
      {
        model: model.name,
        revision: model.revision,
        // A load that only stages files has no replica, and still needs an id of its own.
        replica_id: load.replicaId ?? ReplicaId.parse(opId),
        backend: model.backend,
        config: model.config,
        files: await deps.filesFor(model.config, node),
        op_id: opId,
        epoch,
        slot,
        ...(load.purpose === 'stage' ? { stage_only: true } : {}),
      },
      { timeoutMs: replyTimeoutMs, signal: claimed.signal },
    )
    const event = eventOfReply(reply, deps.quietMs)
    if (event.type !== 'failed' || !isTaken(event.failure)) return event
    return eventOfRefusal({ load, slot }, event.failure, await deps.replicas.liveOn([node]))
  } catch (error) {
    if (claimed.signal.aborted) return null
    const failed = requestErrorOf(error, 'model')
    if (failed === null) throw error
    return await eventOfRequestError(failed, load, deps)
  }
}

async function eventOfRequestError(
  failed: RequestError,
  { nodeId }: Extract<Load, { state: 'starting' }>,
  { nodes, pulses }: ApplyDeps,
): Promise<LoadEvent> {
  switch (failed.is) {
    case 'refused':
      return { type: 'failed', failure: failed.failure }
    case 'no_responders': {
      const node = await nodes.find(nodeId)
      if (node !== null) await pulses.recordNoResponders({ id: node.id, incarnation: node.incarnation })
      return { type: 'no_responders', againInMs }
    }
    case 'unknown':
      return { type: 'unheard', againInMs }
    case 'garbled':
      return { type: 'given_up', failure: failed.failure }
    default:
      return unreachable(failed)
  }
}

async function query({ claimed, model }: Target, deps: ApplyDeps): Promise<void> {
  const { load, bytes } = claimed.record
  if (load.state !== 'starting') return
  const { bus, quietMs, stallMs, log } = deps
  const limits = { timeoutMs: replyTimeoutMs, signal: claimed.signal }
  const about = { model: load.model, node: load.nodeId, op: load.opId }
  try {
    const reply = await queryStatus(bus, load, limits)
    const event = eventOfStatus(load, { reply, bytes }, { now: claimed.now(), quietMs, stallMs })
    if (event === 'unknown') return await send({ claimed, model }, deps)
    const moved = await move(claimed, event, deps, { backendDigest: reply.digest ?? null })
    if (event.type === 'moved') await deps.loads.recordProgress([tickOf(load, bytes, reply)], quietMs)
    if (event.type !== 'given_up' || moved === null) return
    log.warn('load stalled; cancelling it on the worker', about)
    await requestCancel(bus, load, limits)
  } catch (error) {
    if (claimed.signal.aborted) return
    log.debug('status query failed', { ...about, error })
    await move(claimed, eventOfSilence(load, { now: claimed.now(), quietMs, stallMs }, againInMs), deps)
  }
}

// Placing a load, and making room for it: by ending an old replica of its own model or by evicting replicas of other models. The
// old replica is chosen for all loads of the model together, and ended only if none of them has changed.

type Chosen = Pick<PlacementChoice, 'seen' | 'bookingOn'>
type PlacementResult = Readonly<{ placement: Placement | Failure | null }> & Chosen
const unplaced: PlacementResult = { placement: null, seen: new Map(), bookingOn: () => null }

async function placeOf(load: Load, { config }: WantedModel, place: Placer): Promise<PlacementResult> {
  try {
    return await place(wantedOf(load, config))
  } catch (error) {
    if (error instanceof FleetError) return { ...unplaced, placement: ofSource(error.failure, 'backend') }
    throw error
  }
}

/** Another node would not help when a source failed; a partial download continues on the same one. */
const wantedOf = (load: Load, config: PlacementRequest['config']): PlacementRequest => ({
  ...{ config, purpose: load.purpose, pin: load.pin },
  avoid: load.state === 'failed' && load.failure.source === undefined ? load.nodeId : null,
})

interface UnplacedLoad {
  readonly load: Load
  readonly model: WantedModel
  readonly placement: Placement | Failure | null
}
/** `set`: the loads of the model that the decision was based on. */
type Replacement = Readonly<{ old: OldReplica | null; isSpare: boolean; set: Read<ListedLoad> }>
const noReplacement: Replacement = { old: null, isSpare: false, set: { now: 0, rows: [] } }

/** A replica that the load could replace. Looked for only when there is no room for both, and no draining replica makes room. */
async function findReplaced(
  { load, model, placement }: UnplacedLoad,
  { loads, place }: { loads: LoadStore; place: Placer },
): Promise<Replacement> {
  if (load.purpose !== 'serve' || placement === null || 'code' in placement) return noReplacement
  if (placement.eviction?.victims.length === 0 || placement.nodes.some(({ eligible }) => eligible)) return noReplacement
  const set = await loads.listSets(model.name)
  if (isSpare(load, model, set.rows)) return { old: null, isSpare: true, set }
  const { olds, when } = endableFor(load, model, set.rows)
  // A pinned load can only use room on its node.
  const near = load.pin === null ? olds : olds.filter((old) => old.load.nodeId === load.pin)
  const enough = await findEnough(near, wantedOf(load, model.config), place)
  const [any] = load.pin === null ? [] : near
  const found = enough ?? any
  if (found === undefined) return { old: null, isSpare: false, set }
  const { ordinal, nodeId } = found.load
  return { old: { ordinal, nodeId, ends: enough === undefined ? 'not' : when }, isSpare: false, set }
}

type Olds = Endable['olds']

/**
 * The first replica without which there would be room, on the best node. One per node is tried at a time, since each node is
 * judged by its own replicas. (Disk is not freed: the files of an old revision stay for a day, in case it comes back.)
 */
async function findEnough(olds: Olds, wanted: PlacementRequest, place: Placer): Promise<Olds[number] | undefined> {
  const there = [...Map.groupBy(olds, ({ load }) => load.nodeId).values()]
  const most = Math.max(0, ...there.map(({ length }) => length))
  for (let nth = 0; nth < most; nth += 1) {
    const tried = there.flatMap((each) => each[nth] ?? [])
    const without = tried.flatMap(({ load }): ReplicaId[] => (load.replicaId === null ? [] : [load.replicaId]))
    const { placement } = await place({ ...wanted, without })
    for (const { node_id: id, eligible } of placement.nodes) {
      const old = eligible ? tried.find(({ load }) => load.nodeId === id) : undefined
      if (old !== undefined) return old
    }
  }
  return undefined
}

/** False: this load, or another one of the model, has changed. */
export async function endFirst(
  { ordinal }: OldReplica,
  { now, rows }: Read<ListedLoad>,
  { advance }: { advance: Advance },
): Promise<boolean> {
  const among = rows.filter(({ load }) => load.purpose === 'serve')
  const old = among.filter(({ load }) => load.ordinal === ordinal)
  const ended = await advance({ read: async () => ({ now, rows: old }), eventOf: () => ({ type: 'unwanted' }), among })
  return ended !== null
}

/** Evicts exactly the chosen replicas, and only if all of them may still end. Returns the note for the load; null: none ended. */
async function evictFor(
  { model }: Load,
  { victims, nodeName }: Extract<Decision, { do: 'evict' }>,
  { loads, onEvicted, log }: ApplyDeps,
): Promise<string | null> {
  const whose = await loads.evict(victims)
  if (whose === null) return null
  onEvicted(victims.length)
  log.info('replicas evicted for another model', { model, node: nodeName, of: whose, replicas: victims })
  return `evicted ${whose.join(', ')} on ${nodeName} to make room`.slice(0, 1024)
}
