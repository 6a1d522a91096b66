import { createLocalHub } from '@muster/bus'
import { silentLog, type Clock } from '@muster/host'
import { BackendName, NodeId, OperationId, progress, type Progress } from '@muster/protocol'
import { expect, it } from 'vitest'
import type { ProgressTick } from '../store/intents.ts'
import { createInbound, type WorkKey } from '../work/exchange.ts'
import { createProgressCache } from './progress.ts'

const [n1, n2] = [NodeId.parse('n-1'), NodeId.parse('n-2')]
const [op1, op2] = [OperationId.parse('op-1'), OperationId.parse('op-2')]
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** Time passes when a test says so. `isOpen`: of which rows the database says that they are open. */
async function world({
  isOpen = (): boolean => true,
  isLocked = (): boolean => false,
  record,
}: { isOpen?: (op: string) => boolean; isLocked?: () => boolean; record?: () => Promise<never> } = {}) {
  const hub = createLocalHub({ log: silentLog })
  const [written, told]: [ProgressTick[][], WorkKey[]] = [[], []]
  let now = 0
  let wake = (): void => undefined
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    sleep: (_, signal) =>
      new Promise((resolve) => {
        wake = resolve
        signal?.addEventListener('abort', () => resolve(), { once: true })
      }),
  }
  const recordProgress = async (ticks: readonly ProgressTick[]) => {
    written.push([...ticks])
    await record?.()
    return ticks.filter((tick) => isOpen(tick.opId)).map((tick) => ({ ...tick, isLocked: isLocked() }))
  }
  const cache = createProgressCache({
    recordProgress: { intent: recordProgress, load: recordProgress },
    onTicks: (keys) => told.push(...keys),
    clock,
    log: silentLog,
  })
  const stopping = new AbortController()
  const inbound = createInbound({ bus: hub.connect(), receivers: { progress: cache.receive }, log: silentLog })
  const running = Promise.all([inbound.run(stopping.signal), cache.run(stopping.signal)])
  const bus = hub.connect()
  return {
    ...{ cache, written, told, bus },
    async say(fields: Partial<Progress>, from: { node?: NodeId; op?: OperationId } = {}): Promise<void> {
      const { node = n1, op = op1 } = from
      const message = {
        op_id: op,
        node_id: node,
        backend: BackendName.parse('llama'),
        file_name: '',
        current: 0,
        total: 0,
        percentage: 0,
        phase: null,
      }
      bus.publish(progress, { node, op }, { ...message, ...fields })
      await turns()
    },
    async pass(ms: number): Promise<void> {
      now += ms
      wake()
      await turns()
    },
    async stop(): Promise<void> {
      stopping.abort()
      await running
    },
  }
}

it('S2.32 keeps one entry per node and operation, the latest', async () => {
  const { cache, say, stop } = await world()
  await say({ percentage: 10, current: 1, total: 10, file_name: 'a', phase: 'downloading', seq: 1 })
  await say({ percentage: 20, current: 2, total: 10, file_name: 'b', phase: 'extracting', seq: 2 })
  await say({ percentage: 70, seq: 9 }, { node: n2 })
  await say({ percentage: 90, seq: 9 }, { op: op2 })
  expect(cache.latest(n1, op1, 0)).toMatchObject({ percentage: 20, current: 2, total: 10, fileName: 'b', phase: 'extracting', seq: 2 })
  expect([cache.latest(n2, op1, 0)?.percentage, cache.latest(n1, op2, 0)?.percentage, cache.latest(n2, op2, 0)]).toEqual([70, 90, null])
  await stop()
})

it.each<[string, Partial<Progress>]>([
  ['B1 S2.44 older than what is known', { percentage: 90, seq: 4 }],
  ['B1 the same once more', { percentage: 90, seq: 5 }],
  ['B3 about another node than the one that says it', { percentage: 90, seq: 6, node_id: n2 }],
  ['B3 about another operation than its subject', { percentage: 90, seq: 6, op_id: op2 }],
])('drops what is %s', async (_, fields) => {
  const { cache, say, stop } = await world()
  await say({ percentage: 50, seq: 5 })
  await say(fields)
  expect([cache.latest(n1, op1, 0)?.percentage, cache.latest(n2, op1, 0), cache.latest(n1, op2, 0)]).toEqual([50, null, null])
  await stop()
})

it('I10 a bar never goes back within an attempt, though its worker was restarted or the command was sent again', async () => {
  const { cache, say, stop } = await world()
  await say({ percentage: 52, seq: 5, epoch: 3 })
  await say({ percentage: 3, current: 3, seq: 2 ** 32, epoch: 3 })
  expect(cache.latest(n1, op1, 3)).toMatchObject({ percentage: 52, current: 3 })
  await say({ percentage: 4, seq: 2 ** 32 + 1, epoch: 4 })
  expect(cache.latest(n1, op1, 3)?.percentage).toBe(52)
  // Seen from the next attempt that is another try.
  expect(cache.latest(n1, op1, 4)?.percentage).toBe(4)
  expect(cache.latest(n1, op1, 5)).toBeNull()
  await stop()
})

it('progress of a worker without epochs counts for any attempt', async () => {
  const { cache, say, stop } = await world()
  await say({ percentage: 40 })
  await say({ percentage: 30 })
  expect(cache.latest(n1, op1, 7)).toMatchObject({ percentage: 40, seq: null, epoch: null })
  await stop()
})

it('D12 stores new progress once a second, and publishes it every 250 ms', async () => {
  const { say, pass, written, told, stop } = await world()
  for (let seq = 1; seq <= 20; seq += 1) await say({ percentage: seq, seq })
  await pass(250)
  expect([written.length, told]).toEqual([0, [{ nodeId: n1, opId: op1 }]])
  await pass(1_000)
  await pass(1_000)
  expect(written.flat().map((tick) => tick.percentage)).toEqual([20])
  await say({ percentage: 33, seq: 33, epoch: 2 })
  await pass(1_000)
  expect(written.flat().at(-1)).toMatchObject({ percentage: 33, seq: 33, epoch: 2 })
  await stop()
})

it('the last progress is stored before an end, which keeps the bytes in the row', async () => {
  const { cache, say, written, stop } = await world()
  await say({ percentage: 10, seq: 1 })
  await say({ percentage: 10, seq: 1 }, { node: n2 })
  await cache.settle([{ nodeId: n1, opId: op1 }])
  await cache.settle([{ nodeId: n1, opId: op1 }])
  expect(written.map((ticks) => ticks.map((tick) => tick.nodeId))).toEqual([[n1]])
  await stop()
})

it('B3 drops progress of unknown or ended work at once', async () => {
  const { cache, say, pass, stop } = await world({ isOpen: (op) => op === op1 })
  await say({ percentage: 10, seq: 1 })
  await say({ percentage: 10, seq: 1 }, { op: op2 })
  await pass(1_000)
  expect([cache.latest(n1, op1, 0)?.percentage, cache.latest(n1, op2, 0)]).toEqual([10, null])
  await stop()
})

it('B4 one node that names endless operations does not displace other nodes', async () => {
  const { cache, say, bus, pass, written, stop } = await world({ isOpen: (op) => op === op1 })
  for (let i = 0; i < 51_000; i += 1) {
    const op = OperationId.parse(`op-x${i}`)
    bus.publish(
      progress,
      { node: n1, op },
      { op_id: op, node_id: n1, backend: BackendName.parse('llama'), file_name: '', current: 0, total: 0, percentage: 1, phase: null },
    )
    if (i % 200 === 0) await turns()
  }
  await turns()
  await say({ percentage: 10, seq: 1 }, { node: n2 })
  expect(cache.latest(n2, op1, 0)?.percentage).toBe(10)
  await pass(1_000)
  expect(written[0]?.length).toBeLessThan(300)
  await stop()
})

it('S2.25 a database that does not answer does not delay listeners', async () => {
  const { cache, say, pass, stop } = await world({ record: () => new Promise(() => undefined) })
  await say({ percentage: 10, seq: 1 })
  await pass(1_000)
  await say({ percentage: 20, seq: 2 })
  expect(cache.latest(n1, op1, 0)?.percentage).toBe(20)
  void stop()
})

it('progress that could not be stored is stored the next time', async () => {
  let isBroken = true
  const { say, pass, written, stop } = await world({
    record: async () => {
      if (isBroken) throw new Error('no database')
      return undefined as never
    },
  })
  await say({ percentage: 10, seq: 1 })
  await pass(1_000)
  isBroken = false
  await pass(1_000)
  await pass(1_000)
  expect(written.map((ticks) => ticks.length)).toEqual([1, 1])
  await stop()
})

it('the last report before a stall is stored again when another write kept its row', async () => {
  let isLocked = true
  const { say, pass, written, stop } = await world({ isLocked: () => isLocked })
  await say({ percentage: 41.2, seq: 5 })
  await pass(1_000)
  isLocked = false
  await pass(1_000)
  await pass(1_000)
  expect(written.map((ticks) => ticks.map(({ percentage }) => percentage))).toEqual([[41.2], [41.2]])
  await stop()
})
