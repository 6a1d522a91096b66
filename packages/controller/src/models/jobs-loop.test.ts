import { createLocalHub } from '@muster/bus'
import { createLog, silentLog, systemClock } from '@muster/host'
import { modelDelete, ModelName, NodeId, opCancel, OperationId } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import type { ModelJobStore } from '../store/model-jobs.ts'
import type { ModelRemovalStore, Removal } from '../store/model-removals.ts'
import { createJobsLoop } from './jobs-loop.ts'
import { createRemovals } from './removals.ts'

const nodeId = NodeId.parse('one')
const op = OperationId.parse
const gone: Removal = { nodeId, model: ModelName.parse('gone'), operationId: op('op-gone'), attempts: 0 }

function start({ advance, due }: { advance: (id: OperationId) => Promise<{ nodeId: NodeId; opId: OperationId }[]>; due: Removal[] }) {
  const hub = createLocalHub({ log: silentLog })
  const [bus, worker] = [hub.connect(), hub.connect()]
  const lines: string[] = []
  const heard = { advanced: [] as OperationId[], calledOff: [] as OperationId[], settled: [] as Removal[] }
  const jobs: Pick<ModelJobStore, 'open' | 'advance' | 'calledOff'> = {
    open: async () => [op('op-bad'), op('op-good')],
    advance: async (id) => {
      heard.advanced.push(id)
      return await advance(id)
    },
    calledOff: async (id) => void heard.calledOff.push(id),
  }
  const removals: Pick<ModelRemovalStore, 'claim' | 'settle' | 'putOff' | 'nextDue'> = {
    claim: async () => due.splice(0),
    settle: async (removal) => void heard.settled.push(removal),
    putOff: async () => undefined,
    nextDue: async () => null,
  }
  const means = {
    bus,
    intervalMs: 1_000,
    clock: { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 5), signal) },
    log: createLog({ level: 'warn', format: 'json', stream: { write: (line) => lines.push(line) } }),
  }
  const stopping = new AbortController()
  const loop = createJobsLoop({ ...means, jobs: jobs as ModelJobStore })
  const retry = { baseMs: 1, maxMs: 1 }
  const engine = createRemovals({ ...means, removals: removals as ModelRemovalStore, holder: 'c', random: () => 0.5, retry })
  const running = Promise.all([loop.run(stopping.signal), engine.run(stopping.signal)])
  const stop = async (): Promise<void> => {
    stopping.abort()
    await running
    await Promise.all([bus.close(), worker.close()])
  }
  return { bus, worker, heard, lines, stop }
}

it('an operation that always fails keeps no other from its turn, and is named once', async () => {
  const advance = async (id: OperationId) => {
    if (id === 'op-bad') throw new Error('its rows cannot be read')
    return []
  }
  const { worker, heard, lines, stop } = start({ advance, due: [gone] })
  worker.serve(modelDelete, { node: nodeId }, async () => ({ accepted: true as const }))
  await waitFor(() => heard.settled.length > 0 && heard.advanced.filter((id) => id === 'op-good').length > 2, { what: 'the others' })
  await stop()
  expect(heard.settled).toEqual([gone])
  expect(lines.filter((line) => line.includes('op-bad'))).toHaveLength(1)
})

it('an unexpected error during a cancel request does not count as its confirmation', async () => {
  const { bus, heard, lines, stop } = start({ advance: async () => [{ nodeId, opId: op('op-1') }], due: [] })
  bus.request = async () => await Promise.reject(new TypeError('a mistake'))
  await waitFor(() => heard.advanced.length > 4, { what: 'several rounds' })
  await stop()
  expect(heard.calledOff).toEqual([])
  expect(lines).toHaveLength(1)
})

it('stops at once, also while a worker is queried', async () => {
  const { worker, heard, stop } = start({ advance: async () => [{ nodeId, opId: op('op-1') }], due: [] })
  const asked = Promise.withResolvers<void>()
  worker.serve(opCancel, { node: nodeId }, async () => {
    asked.resolve()
    return await new Promise<never>(() => undefined)
  })
  await asked.promise
  const since = performance.now()
  await Promise.race([stop(), systemClock.sleep(5_000)])
  expect(performance.now() - since).toBeLessThan(4_000)
  expect(heard.calledOff).toEqual([])
})
