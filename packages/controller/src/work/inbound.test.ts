import { createLocalHub, type Bus } from '@muster/bus'
import { silentLog } from '@muster/host'
import { heartbeat, Incarnation, NodeId, nodeEvents, OperationId, progress } from '@muster/protocol'
import { expect, it, vi } from 'vitest'
import { createInbound, type Receivers } from './exchange.ts'

const [n1, n2] = [NodeId.parse('n-1'), NodeId.parse('n-2')]
const incarnation = Incarnation.parse('i-1')
const op_id = OperationId.parse('op-1')
const beatOf = (node_id: NodeId, seq = 1) => ({ node_id, incarnation, seq, version: '0', resources: {} })
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

async function receiving(receivers: Receivers, work: (worker: Bus) => void, log = silentLog): Promise<void> {
  const hub = createLocalHub({ log: silentLog })
  const [bus, worker] = [hub.connect(), hub.connect()]
  const stopping = new AbortController()
  const running = createInbound({ bus, receivers, log }).run(stopping.signal)
  work(worker)
  await turns()
  stopping.abort()
  await running
}

it('subscribes once per topic and hands every event to the receiver of its type', async () => {
  const received: [string, string, NodeId][] = []
  const collect = (by: string) => (event: { type: string }, node: NodeId) => void received.push([by, event.type, node])
  const receivers = {
    leaving: collect('leaving'),
    inventory: collect('inventory'),
    replica: collect('replica'),
    result: { intent: collect('intent result'), load: collect('load result') },
  }
  await receiving(receivers, (worker) => {
    worker.publish(nodeEvents, { node: n1 }, { type: 'op.result', incarnation, seq: 1, op_id, state: 'succeeded' })
    const load = OperationId.parse('ld-1')
    worker.publish(nodeEvents, { node: n1 }, { type: 'op.result', incarnation, seq: 1, op_id: load, state: 'succeeded' })
    worker.publish(nodeEvents, { node: n2 }, { type: 'inventory', incarnation, seq: 2, backends: [] })
    worker.publish(nodeEvents, { node: n1 }, { type: 'leaving', incarnation, seq: 3 })
  })
  expect(received).toEqual([
    ['intent result', 'op.result', n1],
    ['load result', 'op.result', n1],
    ['inventory', 'inventory', n2],
    ['leaving', 'leaving', n1],
  ])
})

it('a receiver that throws keeps no other one from the message', async () => {
  const seen: number[] = []
  const error = vi.fn()
  const broken = (): never => {
    throw new Error('broken')
  }
  const receivers = { heartbeat: [broken, ({ seq }: { seq: number }) => void seen.push(seq)] }
  await receiving(receivers, (worker) => [1, 2].forEach((seq) => worker.publish(heartbeat, { node: n1 }, beatOf(n1, seq))), {
    ...silentLog,
    error,
  })
  expect(seen).toEqual([1, 2])
  expect(error).toHaveBeenCalledTimes(2)
})

it('drops a heartbeat in the name of another node', async () => {
  const seen: NodeId[] = []
  await receiving({ heartbeat: [(_, node) => void seen.push(node)] }, (worker) => {
    worker.publish(heartbeat, { node: n1 }, beatOf(n2))
    worker.publish(heartbeat, { node: n2 }, beatOf(n2))
  })
  expect(seen).toEqual([n2])
})

it('S2.24 receives events without progress when the progress topic cannot be subscribed, and logs that', async () => {
  const warn = vi.fn()
  const seen: NodeId[] = []
  const hub = createLocalHub({ log: silentLog })
  const [inner, worker] = [hub.connect(), hub.connect()]
  const subscribe: Bus['subscribe'] = (topic, ...rest) => {
    if ((topic as unknown) === progress) throw new Error('not allowed')
    return inner.subscribe(topic, ...rest)
  }
  const stopping = new AbortController()
  const receivers = { heartbeat: [(_: unknown, node: NodeId) => void seen.push(node)] }
  const running = createInbound({ bus: { ...inner, subscribe }, receivers, log: { ...silentLog, warn } }).run(stopping.signal)
  worker.publish(heartbeat, { node: n1 }, beatOf(n1))
  await turns()
  stopping.abort()
  await running
  expect(seen).toEqual([n1])
  expect(warn).toHaveBeenCalledWith(expect.stringContaining('cannot subscribe'), expect.anything())
})
