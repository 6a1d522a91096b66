// Starts a worker and runs it until it ends. It never ends the process it is in; `ended` reports the outcome to the caller.
import { readNatsTls } from '@muster/bus'
import { newId, errorMessage } from '@muster/host'
import { FleetError, Incarnation, type NodeId, type Session, type WorkerSettings as ClusterSettings } from '@muster/protocol'
import { openServices, type Services, type WorkerContext, type WorkerDeps } from './assemble.ts'
import { startGateway } from './gateway/start-gateway.ts'
import { connectNatsBus, createBusConnection, type BusConnection } from './membership/bus-connection.ts'
import { initialMembership, type Membership } from './membership/membership.pure.ts'
import { gatewayIdentity, loadNodeKey, openNodeRecord } from './membership/node-record.ts'
import { describeWorker, logMembership, runMembership } from './membership/run-membership.ts'
import { createPresence } from './presence.ts'
import { thisRuntime } from './resources/read-machine.ts'
import type { Replicas } from './supervisor/replicas.ts'

export type WorkerEnd = Readonly<{ code: number; message: string }>

export interface Worker {
  /** Null until a controller assigned one. */
  nodeId(): NodeId | null
  /** Publishes a goodbye, and resolves when everything is closed. */
  stop(): Promise<void>
  /** Kills the processes of all replicas, for a caller that exits without waiting for `stop`. */
  kill(): Promise<void>
  /** Never rejects. */
  readonly ended: Promise<WorkerEnd>
}

const defaultHeartbeatMs = 5_000

/** Throws FleetError when it cannot start: no controller is known, or the key is damaged. */
export async function startWorker(deps: WorkerDeps): Promise<Worker> {
  const tls = readNatsTls(deps.settings)
  const node = await openNodeRecord({ dataDir: deps.dataDir, given: deps.settings, log: deps.log })
  const key = await loadNodeKey(deps.dataDir)
  const stopping = new AbortController()
  const stop = (message: string): void => stopping.abort(message)
  const onAbort = (): void => stop('stopped by a signal')
  if (deps.signal?.aborted) onAbort()
  deps.signal?.addEventListener('abort', onAbort, { once: true })

  const live: LiveState = { membership: null, session: null, replicas: null }
  const lost = watchDataDir(deps, stopping)
  const ended = run({ ...deps, settings: node.settings, tls, node, key, stop, signal: stopping.signal }, live)
    .catch((error: unknown): WorkerEnd => {
      if (stopping.signal.aborted && error === stopping.signal.reason) return { code: 0, message: String(error) }
      if (error instanceof FleetError) return { code: 1, message: error.message }
      deps.log.error('worker failed', { error })
      return { code: 1, message: `the worker failed: ${errorMessage(error)}` }
    })
    .then(async (end) => {
      stop(end.message)
      return (await lost) ?? end
    })
    .finally(() => deps.signal?.removeEventListener('abort', onAbort))
  return {
    nodeId: () => node.record().id,
    stop: async () => {
      stop('stopped by a signal')
      await ended
    },
    kill: async () => await live.replicas?.kill(),
    ended,
  }
}

const watchEveryMs = 5_000

/**
 * Stops a worker without a data directory: it has neither identity nor journal, and an accepted command would be written into a
 * file that nobody can find. Resolves when the worker stops; null: for another reason.
 */
async function watchDataDir(
  { dataDir, clock, log }: Pick<WorkerDeps, 'dataDir' | 'clock' | 'log'>,
  stopping: AbortController,
): Promise<WorkerEnd | null> {
  for (;;) {
    const isAwake = await clock.sleep(watchEveryMs, stopping.signal).then(
      () => true,
      () => false,
    )
    if (!isAwake || stopping.signal.aborted) return null
    if (!(await dataDir.isLost())) continue
    const message = `the data directory ${dataDir.root} was removed or replaced while the worker ran; restore it, or join again with a new one`
    log.error('data directory lost; stopping', { path: dataDir.root })
    stopping.abort(message)
    return { code: 1, message }
  }
}

/** The membership and the session that the parts of a running worker read; `replicas` are null until they are open. */
type LiveState = { membership: Membership | null; session: Session | null; replicas: Replicas | null }

async function run(context: WorkerContext, live: LiveState): Promise<WorkerEnd> {
  const link = { isConnected: () => false }
  const cluster = (): ClusterSettings | null => live.session?.settings ?? null
  await using services = await openServices(context, { cluster, isBusConnected: () => link.isConnected() })
  live.replicas = services.replicas
  return await join(context, { services, live, link })
}

type Parts = Readonly<{ services: Services; live: LiveState; link: { isConnected: () => boolean } }>

async function join(context: WorkerContext, { services, live, link }: Parts): Promise<WorkerEnd> {
  const { settings, node, key, clock, log, signal, random = Math.random } = context
  const { monitor, client, replicas, models, metrics } = services
  const incarnation = Incarnation.parse(newId())
  const { gateway, url } = await startGateway({
    settings,
    controllers: node.controllers(),
    isReady: () => live.membership?.state === 'joined' && link.isConnected(),
    identity: () => gatewayIdentity(live.membership, node.record()),
    lastPort: node.record().gateway?.port ?? null,
    replicas,
    openLog: replicas.openLog,
    files: models,
    ...{ metrics, random, clock, log, signal },
  })
  const attach = createPresence({
    ...services,
    nodeType: settings.type,
    gatewayUrl: () => url,
    heartbeatIntervalMs: () => live.session?.settings.heartbeat_interval_ms ?? defaultHeartbeatMs,
    requestStop: context.stop,
    ...{ incarnation, random, clock, log },
  })
  const connection = createBusConnection({
    connectBus: context.connectBus ?? connectNatsBus({ key, tls: context.tls, clock, log }),
    attach,
    log,
  })
  link.isConnected = connection.isConnected
  try {
    await monitor.ready
    const registration = () =>
      describeWorker({ settings, key, incarnation, monitor, gatewayUrl: url, os: thisRuntime.os, arch: thisRuntime.arch })
    const apply = createTransition(context, services, { live, connection, gatewayPort: gateway.port })
    const hasToken = settings.token !== undefined
    const end = await runMembership(
      { client, incarnation, hasToken, registration, apply, onPolled: metrics.polled, random, clock, log, signal },
      initialMembership(node.record().id),
    )
    await connection.close(end.reason === 'stopped')
    // Before the gateway closes: no new request arrives any more, and running requests may end.
    await replicas.stop()
    return { code: end.code, message: end.message }
  } finally {
    await connection.close(false)
    await gateway.close()
  }
}

type Transition = (next: Membership, before: Membership | null) => Promise<void>

/** Makes the parts of the worker follow a change of its membership. */
function createTransition(
  { node, log }: WorkerContext,
  { operations, replicas }: Services,
  { live, connection, gatewayPort }: { live: LiveState; connection: BusConnection; gatewayPort: number },
): Transition {
  return async (next, before) => {
    live.membership = next
    if ('session' in next) live.session = next.session
    logMembership(log, next, before)
    if (isRemoved(next, before)) {
      operations.forget()
      replicas.forget().catch((error: unknown) => log.error('cannot stop the replicas of a removed node', { error }))
    }
    await node.store(next, gatewayPort)
    if (next.state !== 'ended') connection.set(next.state === 'joined' ? { nodeId: next.nodeId, bus: next.session.bus } : null)
  }
}

/** An administrator deleted the node: its operations and replicas are void. */
function isRemoved(now: Membership, before: Membership | null): boolean {
  if (now.state === 'ended') return now.reason === 'deleted'
  return now.state === 'registering' && before !== null && before.state !== 'registering'
}
