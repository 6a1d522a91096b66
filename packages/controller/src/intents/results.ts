// What workers say of their own accord: how their work ended, and what is installed since. Every controller hears it;
// the first to write it wins.
import type { Log } from '@muster/host'
import type { BackendList, NodeId, OperationId, OpStatusReply } from '@muster/protocol'
import type { IntentStore } from '../store/intents.ts'
import type { Advance } from './advance.ts'
import { eventOfEnd, isSatisfied } from './intents.pure.ts'

export interface ListenDeps {
  readonly intents: IntentStore
  readonly advance: Advance
  /** Keeps what was last said of their bytes. */
  readonly settleProgress: (keys: readonly { nodeId: NodeId; opId: OperationId }[]) => Promise<void>
  readonly log: Log
}

/** In one statement. */
const maxBatch = 200
const maxWaiting = 20_000

export function createResultListener({ intents, advance, settleProgress, log }: ListenDeps) {
  let queue: { nodeId: NodeId; reply: OpStatusReply }[] = []
  let draining: Promise<void> | null = null

  const drain = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.slice(0, maxBatch)
      queue = queue.slice(maxBatch)
      await settleResults(batch).catch((error: unknown) =>
        log.warn('results could not be recorded; their workers are asked again', { count: batch.length, error }),
      )
    }
    draining = null
  }
  const settleResults = async (batch: readonly { nodeId: NodeId; reply: OpStatusReply }[]): Promise<void> => {
    const keys = batch.map(({ nodeId, reply }) => ({ nodeId, opId: reply.op_id }))
    await settleProgress(keys)
    const found = await intents.findByOps(keys)
    const moving = batch.flatMap(({ nodeId, reply }) => {
      const event = eventOfEnd(reply)
      const record = found.rows.find(({ intent }) => intent.nodeId === nodeId && intent.opId === reply.op_id)
      const isOther = reply.generation !== undefined && reply.generation !== record?.intent.generation
      return event === null || record === undefined || isOther ? [] : [advance({ record, event, now: found.now })]
    })
    await Promise.all(moving)
  }

  return {
    receive(reply: OpStatusReply, nodeId: NodeId): void {
      // What is too much is lost here and asked for again.
      if (queue.length < maxWaiting) queue.push({ nodeId, reply })
      draining ??= drain()
    },

    /** A node has listed what it has: whatever was wished of it and is so now is done. */
    async settleByInventory(nodeId: NodeId, list: BackendList): Promise<void> {
      if (list.error !== undefined) return
      const { rows, now } = await intents.findOpen(nodeId)
      const done = rows.filter((record) => isSatisfied(record, list))
      await settleProgress(done.map(({ intent }) => intent))
      await Promise.all(done.map((record) => advance({ record, event: { type: 'succeeded', note: '' }, now })))
    },
  }
}
