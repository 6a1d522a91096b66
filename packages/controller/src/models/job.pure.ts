// Decides the next step of an operation about a model, from its loads, replicas and nodes. Pure, so every controller decides the
// same.
import { unreachable, type NodeId } from '@muster/protocol'
import type { LoadBrief } from '../store/load-rows.ts'
import type { Job, Verdict } from '../store/model-jobs.ts'
import type { Outcome, ShownNode } from '../store/model-operations.ts'
import { desiredReplicas } from '../loads/replica-set.pure.ts'

const nothing: Verdict = { show: [], settle: [] }
const ended = (outcome: Outcome, message: string): Verdict => ({ ...nothing, end: { outcome, message } })

export function decideJob(job: Job): Verdict {
  if (job.kind === 'model.delete') return decideDelete(job)
  if (job.kind === 'model.unload') return decideUnload(job)
  if (job.model === null) return ended('cancelled', 'the model was deleted')
  switch (job.kind) {
    case 'model.load':
      return job.nodeId === null ? decideLoad(job, job.model) : decideLoadOnNode(job, job.model, job.nodeId)
    case 'model.prefetch':
      return decidePrefetch(job)
    case 'model.install':
      return decideInstall(job)
    default:
      return unreachable(job.kind)
  }
}

/** A node is settled when its files are deleted, or when the node is removed. */
const decideDelete = ({ nodes }: Job): Verdict => (openOf(nodes).length > 0 ? nothing : endOf(nodes))

/** For an operation that ends with its nodes. */
function endOf(nodes: Job['nodes']): Verdict {
  const has = (status: string): boolean => nodes.some((node) => node.status === status)
  return ended(has('error') ? 'failed' : has('cancelled') && !has('success') ? 'cancelled' : 'succeeded', '')
}

function decideUnload({ nodes, nodeId: only, leftOn: left }: Job): Verdict {
  const open = openOf(nodes)
  const leftOn = left.filter((nodeId) => only === null || nodeId === only)
  const gone = open.filter((nodeId) => !leftOn.includes(nodeId))
  return {
    show: leftOn.map((nodeId) => ({ nodeId, shown: { status: 'downloading', message: 'draining' } })),
    settle: gone.map((nodeId) => ({ nodeId, settled: { status: 'success' } })),
    ...(leftOn.length === 0 && open.length === 0 ? { end: { outcome: 'succeeded', message: '' } } : {}),
  }
}

const openOf = (nodes: Job['nodes']): NodeId[] => nodes.filter(({ status }) => status === 'open').map(({ id }) => id)

/** Null while the model may have replicas. */
function endIfUnwanted({ isUnloaded, scheduling }: NonNullable<Job['model']>): Verdict | null {
  if (isUnloaded) return ended('cancelled', 'the model was unloaded')
  if (scheduling.disabled !== true) return null
  return ended('cancelled', 'the model is disabled; set "disabled" of its scheduling to false first')
}

function decideLoad(job: Job, model: NonNullable<Job['model']>): Verdict {
  const unwanted = endIfUnwanted(model)
  if (unwanted !== null) return unwanted
  if (desiredReplicas(model, job.replicas) < job.replicas) return ended('cancelled', 'fewer replicas are desired now')
  const own = job.loads.filter(({ purpose }) => purpose === 'serve')
  const ready = own.filter(({ state }) => state === 'ready')
  const show = shownNodes(own.filter(({ state }) => state !== 'ready'))
  const busy = new Set(show.map(({ nodeId }) => nodeId))
  const done = new Set(ready.flatMap(({ nodeId }) => (nodeId === null || busy.has(nodeId) ? [] : [nodeId])))
  const left = job.nodes.filter(({ id, status }) => status === 'open' && !busy.has(id) && !done.has(id))
  const settle = [...done].map((nodeId) => ({ nodeId, settled: { status: 'success' as const } }))
  if (ready.length >= job.replicas) {
    const end = { outcome: 'succeeded', message: readyMessage(ready.length) } as const
    return { show, settle: [...settle, ...left.map(skipped('loaded on another node'))], end }
  }
  // A node on which it failed keeps its error, whatever happens elsewhere.
  const spared = left.filter(({ shown }) => shown !== 'error')
  const hopeless = own.find(({ state, nextAt }) => state === 'failed' && nextAt === null)
  if (hopeless !== undefined) {
    const end = { outcome: 'failed', message: hopeless.failure?.message ?? 'it failed' } as const
    return { show, settle: [...settle, ...spared.map(skipped('the model was not loaded'))], end }
  }
  const nowhere = own.find(({ state, nodeId }) => state === 'failed' && nodeId === null)
  const waiting = spared.map(({ id }) => ({ nodeId: id, shown: { status: 'queued' as const } }))
  return { show: [...show, ...waiting], settle, progress: { current: 0, total: 0, message: nowhere?.failure?.message ?? '' } }
}

/** A load on one node. Another node does not help, so the operation ends when the replica is not placed there any more. */
function decideLoadOnNode({ loads }: Job, model: NonNullable<Job['model']>, nodeId: NodeId): Verdict {
  const unwanted = endIfUnwanted(model)
  if (unwanted !== null) return unwanted
  const isUnplaced = ({ state }: LoadBrief): boolean => state === 'waiting' || state === 'failed'
  const own = loads.filter((load) => load.purpose === 'serve' && (isUnplaced(load) ? load.pin : load.nodeId) === nodeId)
  const [first] = own.toSorted((x, y) => order.indexOf(y.state) - order.indexOf(x.state))
  if (first === undefined) return ended('cancelled', 'the replica was placed on another node, or fewer replicas are desired now')
  if (first.state === 'ready')
    return { ...nothing, settle: [{ nodeId, settled: { status: 'success' } }], end: { outcome: 'succeeded', message: readyMessage(1) } }
  const show = [{ nodeId, shown: shownOf(first) }]
  if (first.state !== 'failed' || first.nextAt !== null) return { ...nothing, show }
  return { ...nothing, show, end: { outcome: 'failed', message: first.failure?.message ?? 'it failed' } }
}

const skipped =
  (message: string) =>
  ({ id }: Job['nodes'][number]): Verdict['settle'][number] => ({ nodeId: id, settled: { status: 'skipped', message } })

const readyMessage = (count: number): string => (count === 1 ? 'a replica is ready' : `${count} replicas are ready`)

/** One row per node. Of several slots the one furthest from ready is shown. */
function shownNodes(loads: readonly LoadBrief[]): Verdict['show'][number][] {
  const byNode = new Map<NodeId, LoadBrief>()
  for (const load of loads.toSorted((a, b) => order.indexOf(b.state) - order.indexOf(a.state)))
    if (load.nodeId !== null) byNode.set(load.nodeId, load)
  return [...byNode].map(([nodeId, load]) => ({ nodeId, shown: shownOf(load) }))
}

const order: readonly LoadBrief['state'][] = ['failed', 'waiting', 'installing', 'starting', 'ready']

function shownOf({ state, failure, nextAt, attempts, phase, fileName, note, ...bytes }: LoadBrief): ShownNode {
  const { currentBytes: current, totalBytes: total } = bytes
  if (state === 'failed')
    return {
      status: 'error',
      message: failure?.message ?? '',
      attempts,
      nextRetryAt: nextAt,
      failure: failure ?? { code: 'internal', message: '' },
    }
  if (state === 'waiting') return { status: 'queued', attempts }
  if (state === 'installing') return { status: 'downloading', phase: 'downloading', message: 'installing the backend first', attempts }
  return { status: 'downloading', phase, fileName, current, total, attempts, message: note }
}

function decideInstall(job: Job): Verdict {
  const stage = job.loads.find(({ purpose, pin }) => purpose === 'stage' && pin === null)
  const isDone = stage?.state === 'ready'
  if (isDone) return ended('succeeded', `the files are on ${stage.nodeName ?? 'a node that was removed'}`)
  if (job.cancelRequested) return decideCancelled(stage)
  if (stage === undefined) return ended('cancelled', 'the files are no longer fetched')
  const { state, failure, nextAt, fileName, currentBytes: current, totalBytes: total } = stage
  if (state === 'failed' && nextAt === null) return ended('failed', failure?.message ?? '')
  const message =
    state === 'failed'
      ? (failure?.message ?? '')
      : state === 'starting'
        ? `fetching files on ${stage.nodeName ?? '?'}`
        : 'waiting for a node'
  return { ...nothing, progress: { current, total, fileName, message } }
}

/** A worker that fetches the files is sent a stop command until it confirms. */
function decideCancelled(stage: LoadBrief | undefined): Verdict {
  if (stage?.state === 'starting' && stage.nodeId !== null && stage.opId !== null)
    return { ...nothing, callOff: [{ nodeId: stage.nodeId, opId: stage.opId }] }
  return ended('cancelled', 'cancelled')
}

/** Each node has a load of its own, which is pinned to it. The last settled node ends the operation. */
function decidePrefetch(job: Job): Verdict {
  // The last node was removed.
  if (openOf(job.nodes).length === 0) return endOf(job.nodes)
  const own = job.loads.filter(({ purpose, operationId }) => purpose === 'stage' && operationId === job.id)
  const show: Verdict['show'][number][] = []
  const settle: Verdict['settle'][number][] = []
  const callOff: NonNullable<Verdict['callOff']>[number][] = []
  for (const nodeId of openOf(job.nodes)) {
    const load = own.find(({ pin }) => pin === nodeId)
    if (load === undefined) settle.push({ nodeId, settled: { status: 'cancelled', message: 'the files are no longer fetched' } })
    else if (load.state === 'ready') settle.push({ nodeId, settled: { status: 'success' } })
    else if (job.cancelRequested && load.state === 'starting' && load.opId !== null) callOff.push({ nodeId, opId: load.opId })
    else if (job.cancelRequested) settle.push({ nodeId, settled: { status: 'cancelled', message: 'cancelled' } })
    else if (load.state === 'failed' && load.nextAt === null) settle.push({ nodeId, settled: failedNode(load) })
    else show.push({ nodeId, shown: shownOf(load) })
  }
  return { show, settle, callOff }
}

const failedNode = ({ failure, attempts }: LoadBrief): Verdict['settle'][number]['settled'] => ({
  ...{ status: 'error', attempts, failure: failure ?? { code: 'internal', message: 'it failed' } },
})
