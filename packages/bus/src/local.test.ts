import { heartbeat, opStatus, OperationId } from '@muster/protocol'
import type { Clock, Log } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { beat, busContract, codeOf, newNode, recordingLog } from '../test/contract-suite.ts'
import { createLocalHub } from './local/hub.ts'

const op_id = OperationId.parse('op-1')

describe('the bus within one process', () => {
  // One hub for all, as one server is; its log is that of the running test.
  let current: Log = recordingLog()
  const log: Log = {
    debug: (...line) => current.debug(...line),
    info: (...line) => current.info(...line),
    warn: (...line) => current.warn(...line),
    error: (...line) => current.error(...line),
    child: () => log,
  }
  const hub = createLocalHub({ log })
  busContract({
    connect: async (testLog) => {
      current = testLog
      return hub.connect()
    },
    breakServer: async () => hub.interrupt(),
    healServer: async () => hub.restore(),
  })
})

describe('createLocalHub', () => {
  it('gives a connection made during an interruption its connection afterwards', async () => {
    const hub = createLocalHub({ log: recordingLog() })
    hub.interrupt()
    const bus = hub.connect()
    const node = newNode()
    const seen: number[] = []
    bus.subscribe(heartbeat, { node }, ({ seq }) => void seen.push(seq))
    expect(bus.isConnected()).toBe(false)
    hub.restore()
    expect(bus.isConnected()).toBe(true)
    bus.publish(heartbeat, { node }, beat(node, 1))
    await bus.close()
    expect(bus.stats()).toMatchObject({ sent: 1, received: 1 })
  })

  it('keeps deadlines by the clock it is given', async () => {
    const sleeping: (() => void)[] = []
    const clock: Clock = {
      now: () => 0,
      monotonic: () => 0,
      sleep: (_, signal) =>
        new Promise((resolve, reject) => {
          sleeping.push(resolve)
          signal?.addEventListener('abort', () => reject(signal.reason))
        }),
    }
    const bus = createLocalHub({ log: recordingLog(), clock }).connect()
    const node = newNode()
    bus.serve(opStatus, { node }, () => new Promise(() => undefined))
    const hour = codeOf(bus.request(opStatus, { node }, { op_id }, { timeoutMs: 3_600_000 }))
    sleeping.shift()?.()
    expect(await hour).toBe('timeout')
    const closed = bus.close()
    sleeping.shift()?.()
    await closed
  })

  it('closes within two seconds although a handler hangs', async () => {
    const bus = createLocalHub({ log: recordingLog() }).connect()
    const node = newNode()
    const started = Promise.withResolvers<void>()
    bus.serve(opStatus, { node }, () => {
      started.resolve()
      return new Promise(() => undefined)
    })
    const waiting = codeOf(bus.request(opStatus, { node }, { op_id }, { timeoutMs: 60_000 }))
    await started.promise
    const since = performance.now()
    await bus.close()
    expect(performance.now() - since).toBeLessThan(3000)
    expect(await waiting).toBe('closed')
  })
})
