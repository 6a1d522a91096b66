import { createLocalHub } from '@muster/bus'
import { type Fields, type Log, silentLog } from '@muster/host'
import { backendInstall, BackendName, type Intent, NodeId, OperationId } from '@muster/protocol'
import { expect, it } from 'vitest'
import { sendForcedInstall } from './legacy.ts'

const [nodeId, backend, opId] = [NodeId.parse('n-1'), BackendName.parse('llama'), OperationId.parse('op-1')]
const intent = { nodeId, backend, opId } as Intent

it('S1.11 the forced install for an old worker is logged before it is sent, and given up at its deadline', async () => {
  const hub = createLocalHub({ log: silentLog })
  const seen: unknown[] = []
  // The worker takes the command and never answers.
  hub.connect().serve(backendInstall, { node: nodeId }, (request) => {
    seen.push(request)
    return new Promise<never>(() => undefined)
  })
  const log: Log = { ...silentLog, warn: (message: string, fields?: Fields) => void seen.push([message, fields]) }
  const limits = { timeoutMs: 50, signal: AbortSignal.timeout(5_000) }
  await expect(sendForcedInstall(hub.connect(), intent, { backend, op_id: opId }, { limits, log })).rejects.toMatchObject({
    code: 'timeout',
  })
  expect(limits.signal.aborted).toBe(false)
  expect(seen).toEqual([
    ['Falling back to legacy backend.install Force=true (old worker)', { node: nodeId, backend, op: opId }],
    { backend, op_id: opId, force: true },
  ])
})
