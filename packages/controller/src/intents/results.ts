// Settles intents by reports of workers: the result of an operation, and the inventory of a node. Every controller receives both;
// the first to write wins.
import type { Log } from '@muster/host'
import type { BackendList, NodeId, OpStatusReply } from '@muster/protocol'
import type { IntentStore } from '../store/intents.ts'
import type { WorkKey } from '../work/exchange.ts'
import type { Advance } from './advance.ts'
import { eventOfEnd, isOfOtherGeneration, isSatisfied } from './intents.pure.ts'

export interface ResultsDeps {
  readonly intents: IntentStore
  readonly advance: Advance
  /** Stores the last known progress: an end keeps the bytes that the row has. */
  readonly settleProgress: (keys: readonly WorkKey[]) => Promise<void>
  readonly log: Log
}

type Result = Readonly<{ nodeId: NodeId; reply: OpStatusReply }>

/** Results per statement. */
const maxBatch = 200
const maxPending = 20_000

export function createResults({ intents, advance, settleProgress, log }: ResultsDeps) {
  let queue: Result[] = []
  let isDraining = false

  const settle = async (batch: readonly Result[]): Promise<void> => {
    const keys = batch.map(({ nodeId, reply }) => ({ nodeId, opId: reply.op_id }))
    await settleProgress(keys)
    const found = await intents.findByOps(keys)
    const moving = batch.flatMap(({ nodeId, reply }) => {
      const event = eventOfEnd(reply)
      const record = found.rows.find(({ intent }) => intent.nodeId === nodeId && intent.opId === reply.op_id)
      if (event === null || record === undefined || isOfOtherGeneration(record.intent, reply)) return []
      return [advance({ record, event, now: found.now })]
    })
    await Promise.all(moving)
  }
  const drain = async (): Promise<void> => {
    isDraining = true
    while (queue.length > 0) {
      const batch = queue.slice(0, maxBatch)
      queue = queue.slice(maxBatch)
      await settle(batch).catch((error: unknown) =>
        log.warn('cannot record results; querying their workers', { count: batch.length, error }),
      )
    }
    isDraining = false
  }

  return {
    receive(reply: OpStatusReply, nodeId: NodeId): void {
      // A result beyond the limit is lost here; its worker is queried.
      if (queue.length < maxPending) queue.push({ nodeId, reply })
      if (!isDraining) void drain()
    },

    /** Settles the open intents that the inventory of a node fulfills. */
    async settleByInventory(nodeId: NodeId, list: BackendList): Promise<void> {
      if (list.error !== undefined) return
      const { rows, now } = await intents.findOpen(nodeId)
      const done = rows.filter((record) => isSatisfied(record, list))
      await settleProgress(done.map(({ intent }) => intent))
      await Promise.all(done.map((record) => advance({ record, event: { type: 'succeeded', note: '' }, now })))
    },
  }
}
