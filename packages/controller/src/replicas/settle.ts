// Writes down what workers said of their replicas.
import type { Heartbeat, NodeId, OpStatusReply, ReplicaId } from '@muster/protocol'
import type { Advance } from '../loads/advance.ts'
import { eventOfEnd, failureOfExit, type StepDetail } from '../loads/loads.pure.ts'
import type { LoadStore } from '../store/loads.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { Exit, ReplicaStore, Stamp } from '../store/replicas.ts'
import type { WorkKey } from '../work/exchange.ts'
import type { ReplicaEvent, ResultEvent } from '../work/inbound.ts'
import { compareReplicas, type Finding } from './compare.pure.ts'

export interface SettleDeps {
  readonly loads: LoadStore
  readonly replicas: ReplicaStore
  readonly nodes: Pick<NodeStore, 'incarnationsOf'>
  readonly advance: Advance
  readonly settleProgress: (keys: readonly WorkKey[]) => Promise<void>
}
export type Beat = Readonly<{ beat: Heartbeat; arrivedAt: number }>

/** Nothing of a process that no longer speaks for its node counts. */
export async function compareBeats(
  beats: ReadonlyMap<NodeId, Beat>,
  now: number,
  { replicas, nodes }: SettleDeps,
): Promise<{ node: NodeId; finding: Finding; stamp: Stamp }[]> {
  const ids = [...beats.keys()]
  const known = Map.groupBy(await replicas.liveOn(ids), ({ nodeId }) => nodeId)
  const concerned = ids.filter((id) => known.has(id) || (beats.get(id)?.beat.replicas?.length ?? 0) > 0)
  const speaking = await nodes.incarnationsOf(concerned)
  return concerned.flatMap((node) => {
    const heard = beats.get(node)
    if (heard === undefined || speaking.get(node) !== heard.beat.incarnation) return []
    const { incarnation, seq, replicas: listed = [] } = heard.beat
    const said = { incarnation, seq, ageMs: now - heard.arrivedAt, replicas: listed }
    return compareReplicas(known.get(node) ?? [], said).map((finding) => ({ node, finding, stamp: { incarnation, seq } }))
  })
}

export async function settleFinding(finding: Exclude<Finding, { is: 'orphan' }>, stamp: Stamp, deps: SettleDeps): Promise<void> {
  if (finding.is === 'ready') await becameReady(finding.id, { stamp }, deps)
  else await exited(finding.id, { exit: { reason: 'its worker does not list it any more' }, stamp }, deps)
}

export async function settleEvent(node: NodeId, event: ReplicaEvent | ResultEvent, deps: SettleDeps): Promise<void> {
  const speaking = await deps.nodes.incarnationsOf([node])
  if (speaking.get(node) !== event.incarnation) return
  const stamp = { incarnation: event.incarnation, seq: event.seq }
  switch (event.type) {
    case 'replica.ready':
      if (await isOf(node, event.replica_id, deps))
        await becameReady(event.replica_id, { stamp, backendDigest: event.backend_digest }, deps)
      return
    case 'replica.exited': {
      const { exit_code, signal, last_lines, expected } = event
      const exit = {
        ...(exit_code === undefined ? {} : { exit_code }),
        ...(signal === undefined ? {} : { signal }),
        ...(last_lines === undefined ? {} : { last_lines }),
        ...(expected === undefined ? {} : { expected }),
      }
      if (await isOf(node, event.replica_id, deps)) await exited(event.replica_id, { stamp, exit }, deps)
      return
    }
    case 'op.result':
      await ended(node, event, { stamp, backendDigest: event.digest ?? null }, deps)
  }
}

/** A node speaks of its own replicas only. */
async function isOf(node: NodeId, id: ReplicaId, { replicas }: SettleDeps): Promise<boolean> {
  return (await replicas.find(id))?.nodeId === node
}

async function becameReady(id: ReplicaId, detail: StepDetail, deps: SettleDeps): Promise<void> {
  const moved = await deps.advance({ read: () => deps.loads.findByReplica(id), eventOf: () => ({ type: 'ready' }), detail })
  if (moved !== null) return
  await deps.replicas.change({ id, do: 'ready', backendDigest: detail.backendDigest ?? null, stamp: detail.stamp ?? null })
}

async function exited(id: ReplicaId, { exit, stamp }: { exit: Exit; stamp: Stamp }, deps: SettleDeps): Promise<void> {
  const event = { type: 'exited', failure: failureOfExit(exit), wasTold: exit.expected === true } as const
  const moved = await deps.advance({ read: () => deps.loads.findByReplica(id), eventOf: () => event, detail: { exit, stamp } })
  if (moved !== null) return
  await deps.replicas.change({ id, do: 'exit', exit, stamp })
}

async function ended(
  node: NodeId,
  reply: OpStatusReply,
  detail: StepDetail,
  { loads, advance, settleProgress }: SettleDeps,
): Promise<void> {
  const event = eventOfEnd(reply)
  if (event === null) return
  await settleProgress([{ nodeId: node, opId: reply.op_id }])
  await advance({ read: () => loads.findByOp(node, reply.op_id), eventOf: (load) => (load.state === 'starting' ? event : null), detail })
}
