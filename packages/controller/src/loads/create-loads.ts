// Composes the loads: work, replica checks and reports, status for waiting requests, and placement.
import type { Bus } from '@muster/bus'
import type { Clock, Log, Step } from '@muster/host'
import {
  type BackendName,
  type Failure,
  FailureCode,
  FleetError,
  type ModelConfig,
  type ModelFile,
  type NodeId,
  ofSource,
  type OperationId,
  type ReplicaId,
} from '@muster/protocol'
import { type Catalogue, galleryOfFleet } from '../gallery/catalogue.ts'
import type { Submissions } from '../operations/submit.ts'
import { chooseSpread } from '../placement/placement.pure.ts'
import { createPlacer, type Placer, type PlacerDeps } from '../placement/placer.ts'
import type { ReadHeaders } from '../placement/source-headers.ts'
import { createReplicaChecks } from '../replicas/check-replicas.ts'
import { createReplicaReports, createTendReplicas, createUnload } from '../replicas/reports.ts'
import type { ControllerSettings } from '../settings.ts'
import type { WantedModel } from '../store/loads.ts'
import type { Store } from '../store/store.ts'
import type { WorkKey } from '../work/exchange.ts'
import { createAdvance, createDemands, type LoadTransition, LoadWork } from './load-work.ts'
import { createApply } from './apply.ts'
import { type Bytes, createColdLoads, createLoadStatuses } from './load-status.ts'
import type { InstallStanding } from './loads.pure.ts'
import { withLive } from '../with-live.ts'

export interface LoadsDeps {
  readonly bus: Bus
  readonly store: Store
  readonly settings: Pick<ControllerSettings, 'opStallTimeout' | 'reconcileInterval' | 'idleScaleDown'> &
    Partial<Pick<ControllerSettings, 'diskCheck'>>
  /** This controller; its leases end when it dies. */
  readonly holder: string
  readonly catalogue: Catalogue
  readonly isAssembling: (backend: string) => Promise<boolean>
  readonly submissions: Pick<Submissions, 'install' | 'submit'>
  readonly latestProgress: (nodeId: NodeId, opId: OperationId, since: number) => Bytes | null
  /** Stores the last known progress before an end is recorded. */
  readonly settleProgress: (keys: readonly WorkKey[]) => Promise<void>
  readonly filesFor: (config: ModelConfig, nodeId: NodeId) => Promise<ModelFile[]>
  readonly readHeaders?: ReadHeaders
  readonly onStep: (transition: LoadTransition) => void
  /** True when this controller is about to stop: it places nothing, and reports of workers are still recorded. */
  readonly isPaused?: () => boolean
  /** Called when a model found no node, with the reasons. */
  readonly onRefused?: NonNullable<PlacerDeps['onRefused']>
  /** Called with the number of evicted replicas. */
  readonly onEvicted?: (count: number) => void
  readonly step: Step
  readonly random: () => number
  readonly clock: Clock
  readonly log: Log
}
export type Loads = ReturnType<typeof createLoads>

/** After this time without a sign of life the worker is queried. */
const maxQuietMs = 5_000

export const quietMsOf = ({ opStallTimeout }: Pick<ControllerSettings, 'opStallTimeout'>): number =>
  Math.min(maxQuietMs, opStallTimeout / 4)

export function createLoads(deps: LoadsDeps) {
  const { bus, store, settings, holder, latestProgress, random, clock, log } = deps
  const { loads, replicas, nodes } = store
  const onStep = (transition: LoadTransition): void => {
    deps.onStep(transition)
    work.wake()
  }
  const advance = createAdvance({ loads, onStep, random, log })
  const known = {
    ...{ placement: store.placement, catalogue: deps.catalogue, inFlight: (id: ReplicaId) => reports.inFlight(id) },
    diskCheck: () => settings.diskCheck ?? 'refuse',
  }
  const counted = { ...known, readHeaders: deps.readHeaders, ...(deps.onRefused === undefined ? {} : { onRefused: deps.onRefused }) }
  const listedName = (backend: BackendName): Promise<BackendName> => store.intents.listedName(backend)
  const unload = createUnload({ bus, log })
  const demand = createDemands({ loads, nodes })
  const placing = (): Placer => createPlacer({ ...counted, placement: readOnce(store.placement) })
  const applying = { ...applyParts(deps), demand, advance, placing, listedName }
  const apply = createApply(withLive(applying, { stallMs: () => settings.opStallTimeout, quietMs: () => quietMsOf(settings) }))
  const working = {
    ...{ loads, demand, advance, apply, holder, clock, log },
    isPaused: () => deps.isPaused?.() ?? false,
    findSpread: createFindSpread({ placement: store.placement, place: explainOf(createPlacer(known), listedName) }),
    tendReplicas: createTendReplicas({ bus, loads, replicas, advance, unload, log }),
    intervalMs: settings.reconcileInterval,
  }
  const work: LoadWork = new LoadWork(withLive(working, { idleMs: () => settings.idleScaleDown }))
  const intervalMs = settings.reconcileInterval
  const checks = createReplicaChecks({ checks: store.replicaChecks, loads, advance, holder, intervalMs, clock, log })
  const reports = createReplicaReports({
    ...{ loads, replicas, nodes, advance, unload, clock, log },
    settleProgress: deps.settleProgress,
  })
  const statuses = createLoadStatuses({ loads, replicas, nodes, latestProgress, installBytes: installBytesOf(store) })
  return {
    cold: createColdLoads({ loads, statuses, wake: () => work.wake() }),
    place: explainOf(createPlacer(known), listedName),
    inFlight: reports.inFlight,
    onInFlight: reports.onInFlight,
    receiveHeartbeat: reports.receiveHeartbeat,
    receiveEvent: reports.receiveEvent,
    wake: (): void => work.wake(),
    /** Kinds of changed objects. A changed node may have room for loads that found none. */
    noteChanges(kinds: ReadonlySet<string>): void {
      if (kinds.has('node')) work.noteNodes()
      if (kinds.has('node') || kinds.has('replica')) checks.wake()
      if (['model', 'replica', 'operation', 'backend'].some((kind) => kinds.has(kind))) work.wake()
    },
    /** Intents were settled on these nodes: loads that wait for an install there are due. */
    noteInstalled(nodeIds: readonly NodeId[]): void {
      void loads.hurryInstalling(nodeIds).then(
        () => work.wake(),
        (error: unknown) => log.debug('cannot wake loads', { error }),
      )
    },
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([work.run(signal), reports.run(signal), checks.run(signal)])
    },
  }
}

/** The dependencies of `apply` that come from outside the loads. */
function applyParts(deps: LoadsDeps) {
  const { bus, store, clock, log } = deps
  const { loads, replicas, nodes, pulses } = store
  return {
    ...{ bus, loads, replicas, nodes, pulses, clock, log },
    install: installOf(deps),
    installStanding: installStandingOf(store),
    filesFor: deps.filesFor,
    isAssembling: deps.isAssembling,
    step: deps.step,
    onEvicted: (count: number) => deps.onEvicted?.(count),
  }
}

/** Explains placement to administrators; refusals are not counted. */
function explainOf(place: Placer, listedName: (backend: BackendName) => Promise<BackendName>): Placer {
  return async ({ config, ...wanted }) => await place({ ...wanted, config: { ...config, backend: await listedName(config.backend) } })
}

/** A node for one of several replicas that share another. Nothing ends for it, and nothing is installed. */
function createFindSpread({ placement: store, place }: { placement: Pick<Store['placement'], 'spreadFacts'>; place: Placer }) {
  return async ({ name, config }: WantedModel): Promise<NodeId | null> => {
    try {
      const { placement } = await place({ config, purpose: 'serve', avoid: null, pin: null })
      return chooseSpread(placement, await store.spreadFacts(name))
    } catch (error) {
      // No gallery offers the backend of the model any more: its replicas stay where they are.
      if (error instanceof FleetError) return null
      throw error
    }
  }
}

/** Installs within this time share one reading of the galleries. */
const galleryAgeMs = 30_000

/** An ordinary install for one node: it joins an open one. */
function installOf({ submissions, store, catalogue }: LoadsDeps): Parameters<typeof createApply>[0]['install'] {
  return async ({ model, nodeId, signal }) => {
    const requestedBy = `load of model ${model.name}`
    const [offers, nodes] = await Promise.all([catalogue({ maxAgeMs: galleryAgeMs }), store.nodes.list()])
    const from = galleryOfFleet(offers, model.backend, nodes)
    const submission = await submissions.install({ backend: model.backend, from, nodes: [nodeId] }, { requestedBy, signal })
    await submissions.submit([submission])
    return submission.id
  }
}

function installStandingOf({ operations }: Pick<Store, 'operations'>) {
  return async (installId: OperationId, nodeId: NodeId): Promise<InstallStanding> => {
    const operation = await operations.find(installId)
    const node = operation?.nodes.find((each) => each.nodeId === nodeId)
    switch (node?.status) {
      case undefined:
      case 'shown':
      case 'cancelled':
        return { kind: 'gone' }
      case 'success':
        return { kind: 'done' }
      case 'skipped':
        return { kind: 'failed', failure: { code: 'incompatible', retry: 'backoff', message: node.message } }
      case 'error':
        return { kind: 'failed', failure: ofSource(errorOf(node), 'backend') }
      case 'open': {
        // The intent is retried much later; the load has its own backoff, and shows the failure meanwhile.
        const { intent } = node.record
        const isBetweenTries = intent.state === 'waiting' && intent.lastFailure !== null
        return isBetweenTries && intent.lastFailure !== null ? { kind: 'failed', failure: intent.lastFailure } : { kind: 'open' }
      }
    }
  }
}

function errorOf({ error, errorCode, dead }: { error: string | null; errorCode: string | null; dead: boolean }): Failure {
  const code = FailureCode.safeParse(errorCode).data ?? 'internal'
  return { code, retry: dead ? 'backoff' : 'never', message: error ?? 'the backend could not be installed' }
}

function installBytesOf({ intents }: Pick<Store, 'intents'>) {
  return async (nodeId: NodeId, backend: BackendName): Promise<Bytes | null> => (await intents.find(nodeId, backend)).rows[0]?.bytes ?? null
}

type Facts = PlacerDeps['placement']

/** Reads nodes and replicas once: all placements of one decision see the same moment. */
function readOnce(store: Facts): Facts {
  let replicas: ReturnType<Facts['replicas']> | null = null
  return {
    replicas: () => (replicas ??= store.replicas()),
    nodes: once((wanted) => store.nodes(wanted)),
    files: once((wanted) => store.files(wanted)),
  }
}

/** Equal arguments share one call. */
function once<A, R>(read: (wanted: A) => R): (wanted: A) => R {
  const known = new Map<string, R>()
  return (wanted) => {
    const key = JSON.stringify(wanted)
    const before = known.get(key) ?? read(wanted)
    known.set(key, before)
    return before
  }
}
