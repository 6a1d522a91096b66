// The contract of every implementation of the Bus. Run by local.test.ts and nats.int.test.ts.
import {
  backendInstall,
  backendList,
  backendStop,
  FleetError,
  heartbeat,
  modelLoad,
  NodeId,
  opStatus,
  OperationId,
  progress,
} from '@muster/protocol'
import type { LoadModel, NodeEvent, OpStatusReply } from '@muster/protocol'
import type { Fields, Log } from '@muster/host'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Bus, BusErrorCode } from '../src/bus.ts'
import { BusError } from '../src/bus.ts'

export interface BusWorld {
  /** A connected bus; ended by the suite. */
  connect(log: Log): Promise<Bus>
  /** The server is gone: resolves when it is, not when the connections have noticed. */
  breakServer(): Promise<void>
  healServer(): Promise<void>
}

export interface RecordingLog extends Log {
  readonly lines: { readonly level: string; readonly message: string; readonly fields: Fields }[]
}

export function recordingLog(): RecordingLog {
  const lines: RecordingLog['lines'] = []
  const at =
    (level: string) =>
    (message: string, fields: Fields = {}): void => {
      lines.push({ level, message, fields })
    }
  const log: RecordingLog = { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => log }
  return log
}

export async function codeOf(promise: Promise<unknown>): Promise<BusErrorCode | 'fleet error' | 'no error'> {
  try {
    await promise
    return 'no error'
  } catch (error) {
    if (error instanceof BusError) return error.code
    if (error instanceof FleetError) return 'fleet error'
    throw error
  }
}

const op = OperationId.parse('op-1')
const running = (op_id: OperationId): OpStatusReply => ({ op_id, state: 'running' })
const soon = { timeoutMs: 10_000 }
let nodes = 0
/** A node of its own for each test: they share a server. */
export const newNode = (): NodeId => NodeId.parse(`n-${(nodes += 1)}`)
export const beat = (node: NodeId, seq: number) => ({ node_id: node, incarnation: 'i-1', seq, version: '1.0.0', resources: {} })

function modelOfBytes(bytes: number): LoadModel {
  const load = { model: 'm', revision: 'r', replica_id: 'r-1', backend: 'b', config: { text: '' }, files: [] }
  load.config.text = 'x'.repeat(bytes - JSON.stringify(load).length)
  return modelLoad.request.parse(load)
}

const waitFor = async (condition: () => boolean, { what, timeoutMs = 10_000 }: { what: string; timeoutMs?: number }): Promise<void> => {
  try {
    await vi.waitUntil(condition, { timeout: timeoutMs, interval: 10 })
  } catch (cause) {
    throw new Error(`waited ${timeoutMs} ms for ${what}`, { cause })
  }
}

export function busContract(world: BusWorld): void {
  const open: Bus[] = []
  let log = recordingLog()
  const connect = async (): Promise<Bus> => {
    const bus = await world.connect(log)
    open.push(bus)
    return bus
  }
  const pair = async (): Promise<{ asker: Bus; server: Bus; node: NodeId }> => ({
    asker: await connect(),
    server: await connect(),
    node: newNode(),
  })
  /** Until the server knows what was subscribed before. */
  const settle = (...buses: Bus[]): Promise<unknown> => Promise.all(buses.map((bus) => bus.ping(5000)))
  const logged = (message: string) => log.lines.filter((line) => line.message === message)

  afterEach(async () => {
    await Promise.all(open.splice(0).map((bus) => bus.close()))
    log = recordingLog()
  })

  describe('request and serve', () => {
    it('parses the request and the reply on both sides', async () => {
      const { asker, server, node } = await pair()
      const seen: unknown[] = []
      server.serve(backendList, { node }, (body, to) => {
        seen.push(body, to)
        return { backends: [{ name: 'llama', unknown: 1 }] }
      })
      await settle(server)
      const asked = asker.request(backendList, { node }, { extra: 'ignored' } as never, soon)
      expect(seen, 'the handler never runs within the request').toEqual([])
      const reply = await asked
      expect(seen).toEqual([{}, { node }])
      expect(reply.backends).toEqual([
        { name: 'llama', is_system: false, is_meta: false, installed_at: '', gallery_url: '', version: '', uri: '', digest: '' },
      ])
    })

    /** The operation `slow` is answered when `release` is called. */
    const pairWithSlowOperation = async () => {
      const { asker, server, node } = await pair()
      const { promise, resolve: release } = Promise.withResolvers<void>()
      server.serve(opStatus, { node }, async ({ op_id }) => {
        if (op_id === 'slow') await promise
        return running(op_id)
      })
      await settle(server)
      return { asker, node, release }
    }

    it('C9 a subject without a responder fails as no_responders', async () => {
      const { asker, node } = await pair()
      expect(await codeOf(asker.request(backendList, { node }, {}, soon))).toBe('no_responders')
    })

    it('no answer in time is a timeout, and a late answer is harmless', async () => {
      const { asker, node, release } = await pairWithSlowOperation()
      expect(await codeOf(asker.request(opStatus, { node }, { op_id: 'slow' }, { timeoutMs: 50 }))).toBe('timeout')
      release()
      expect(await asker.request(opStatus, { node }, { op_id: op }, soon)).toEqual({ op_id: op, state: 'running' })
    })

    it('an abort ends the wait with its reason, and sends nothing when it came first', async () => {
      const { asker, server, node } = await pair()
      const started = Promise.withResolvers<void>()
      let calls = 0
      const release = Promise.withResolvers<void>()
      server.serve(opStatus, { node }, async ({ op_id }) => {
        calls += 1
        started.resolve()
        await release.promise
        return running(op_id)
      })
      await settle(server)
      const abort = new AbortController()
      const waiting = asker.request(opStatus, { node }, { op_id: op }, { ...soon, signal: abort.signal })
      await started.promise
      abort.abort(new Error('no longer wanted'))
      await expect(waiting).rejects.toThrow('no longer wanted')
      await expect(asker.request(opStatus, { node }, { op_id: op }, { ...soon, signal: abort.signal })).rejects.toThrow('no longer wanted')
      await settle(asker, server)
      expect(calls).toBe(1)
      release.resolve()
    })

    it('several servers share the load, each request goes to one', async () => {
      const { asker, server, node } = await pair()
      const other = await connect()
      const calls = { server: 0, other: 0 }
      server.serve(opStatus, { node }, ({ op_id }) => {
        calls.server += 1
        return running(op_id)
      })
      other.serve(opStatus, { node }, ({ op_id }) => {
        calls.other += 1
        return running(op_id)
      })
      await settle(server, other)
      await Promise.all(Array.from({ length: 100 }, () => asker.request(opStatus, { node }, { op_id: op }, soon)))
      expect(calls.server + calls.other).toBe(100)
      expect(Math.min(calls.server, calls.other)).toBeGreaterThan(10)
    })

    it('serves any node and names the addressed one', async () => {
      const { asker, server, node } = await pair()
      server.serve(opStatus, { node: '*' }, ({ op_id }, to) => ({ ...running(op_id), version: to.node }))
      await settle(server)
      expect(await asker.request(opStatus, { node }, { op_id: op }, soon)).toMatchObject({ version: node })
      await server.close()
    })

    it('a failure of the handler reaches the asker unchanged', async () => {
      const { asker, server, node } = await pair()
      const failure = { code: 'disk_full', retry: 'backoff', message: 'no room for llama on gpu-1' } as const
      server.serve(backendInstall, { node }, () => {
        throw new FleetError(failure)
      })
      await settle(server)
      const error = await asker.request(backendInstall, { node }, { backend: 'llama' }, soon).catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(FleetError)
      expect(error).toMatchObject({ failure })
      expect(logged('command handler failed')).toEqual([])
    })

    it('a bug in the handler is an internal failure for the asker and an error in the log', async () => {
      const { asker, server, node } = await pair()
      server.serve(backendInstall, { node }, async () => {
        throw new TypeError('x is undefined')
      })
      await settle(server)
      const error = await asker.request(backendInstall, { node }, { backend: 'llama' }, soon).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ failure: { code: 'internal', retry: 'backoff', message: 'x is undefined' } })
      expect(logged('command handler failed')).toHaveLength(1)
    })

    it('a reply that does not match the definition is an internal failure, not a timeout', async () => {
      const { asker, server, node } = await pair()
      server.serve(opStatus, { node }, () => ({ op_id: op, state: 'sleeping' as never }))
      await settle(server)
      const error = await asker.request(opStatus, { node }, { op_id: op }, soon).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ failure: { code: 'internal', message: expect.stringContaining('state') } })
      expect(logged('command handler failed')).toHaveLength(1)
    })

    it('C15 a request body that does not parse is answered as invalid, and counted', async () => {
      const { asker, server, node } = await pair()
      let calls = 0
      server.serve(backendInstall, { node }, () => ({ accepted: (calls += 1) > 0 }) as { accepted: true })
      await settle(server)
      const loose = { ...backendInstall, request: backendStop.message }
      const error = await asker.request(loose, { node }, { force: true }, soon).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ failure: { code: 'invalid', retry: 'never', message: expect.stringContaining('backend') } })
      expect(calls).toBe(0)
      expect(server.stats().malformed).toBe(1)
    })

    it('a reply that the asker does not understand is invalid, and counted', async () => {
      const { asker, server, node } = await pair()
      server.serve({ ...opStatus, reply: backendList.reply }, { node }, () => ({ backends: [] }))
      await settle(server)
      expect(await codeOf(asker.request(opStatus, { node }, { op_id: op }, soon))).toBe('invalid')
      expect(asker.stats().malformed).toBe(1)
    })

    it('S2.25 many slow requests hold up no fast one', async () => {
      const { asker, node, release } = await pairWithSlowOperation()
      const slow = Array.from({ length: 300 }, () => asker.request(opStatus, { node }, { op_id: 'slow' }, soon))
      expect(await asker.request(opStatus, { node }, { op_id: op }, { timeoutMs: 2000 })).toMatchObject({ op_id: op })
      release()
      expect(await Promise.all(slow)).toHaveLength(300)
    })

    it('more than 1,024 requests at once are refused as unavailable instead of piling up', async () => {
      const { asker, server, node } = await pair()
      const release = Promise.withResolvers<void>()
      server.serve(opStatus, { node }, async ({ op_id }) => {
        await release.promise
        return running(op_id)
      })
      await settle(server)
      const accepted = Array.from({ length: 1024 }, () => asker.request(opStatus, { node }, { op_id: op }, soon))
      const refused = await asker.request(opStatus, { node }, { op_id: op }, soon).catch((reason: unknown) => reason)
      expect(refused).toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
      release.resolve()
      expect(await Promise.all(accepted)).toHaveLength(1024)
    })

    it('C8 a request of exactly 1 MiB passes, one byte more is refused before it is sent', async () => {
      const { asker, server, node } = await pair()
      server.serve(modelLoad, { node }, (load) => ({ success: true, address: String(JSON.stringify(load).length) }))
      await settle(server)
      expect(await asker.request(modelLoad, { node }, modelOfBytes(1_048_576), soon)).toEqual({ success: true, address: '1048576' })
      const { sent } = asker.stats()
      expect(await codeOf(asker.request(modelLoad, { node }, modelOfBytes(1_048_577), soon))).toBe('too_large')
      expect(asker.stats().sent).toBe(sent)
      expect(asker.isConnected()).toBe(true)
    })

    it('C14 an id that could change the subject is refused before anything is sent', async () => {
      const { asker } = await pair()
      for (const node of ['a.b', '*', '>', 'a b', 'a'.repeat(300), '', 'A']) {
        expect(await codeOf(asker.request(backendList, { node: node as never }, {}, soon)), node).toBe('invalid')
        expect(() => asker.publish(backendStop, { node: node as never }, {}), node).toThrow(BusError)
      }
      expect(asker.stats().sent).toBe(0)
    })

    it('a stopped server finishes its open requests, and is then gone', async () => {
      const { asker, server, node } = await pair()
      const started = Promise.withResolvers<void>()
      const release = Promise.withResolvers<void>()
      const subscription = server.serve(opStatus, { node }, async ({ op_id }) => {
        started.resolve()
        await release.promise
        return running(op_id)
      })
      await settle(server)
      const waiting = asker.request(opStatus, { node }, { op_id: op }, soon)
      await started.promise
      let isStopped = false
      const stopped = subscription.stop().then(() => (isStopped = true))
      await settle(server)
      expect(isStopped).toBe(false)
      release.resolve()
      await stopped
      expect(await waiting).toMatchObject({ state: 'running' })
      expect(await codeOf(asker.request(opStatus, { node }, { op_id: op }, soon))).toBe('no_responders')
    })
  })

  describe('publish and subscribe', () => {
    it('delivers in order, one at a time, never within publish', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const seen: number[] = []
      let inHandler = 0
      let mostInHandler = 0
      receiver.subscribe(heartbeat, { node }, async ({ seq }) => {
        inHandler += 1
        mostInHandler = Math.max(mostInHandler, inHandler)
        if (seq % 7 === 0) await new Promise(setImmediate)
        seen.push(seq)
        inHandler -= 1
      })
      sender.subscribe(heartbeat, { node }, () => undefined)
      await settle(receiver, sender)
      const want = Array.from({ length: 1000 }, (_, i) => i)
      for (const seq of want) sender.publish(heartbeat, { node }, beat(node, seq))
      expect(mostInHandler).toBe(0)
      await waitFor(() => seen.length === 1000, { what: 'all messages' })
      expect(mostInHandler).toBe(1)
      expect(seen).toEqual(want)
      expect(sender.stats()).toMatchObject({ sent: 1000 })
      expect(receiver.stats()).toMatchObject({ received: 1000, dropped: 0, malformed: 0 })
    })

    it('a wildcard subscription gets the parameters of each message, parsed', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const other = newNode()
      const seen: unknown[] = []
      receiver.subscribe(progress, { node, op: '*' }, (message, to) => void seen.push([to, message.phase, message.file_name]))
      await settle(receiver)
      const tick = { op_id: op, backend: 'llama', current: 0, total: 0, percentage: 0 }
      sender.publish(progress, { node: other, op }, { ...tick, node_id: other })
      sender.publish(progress, { node, op: OperationId.parse('op-2') }, { ...tick, node_id: node, phase: 'extracting' })
      await waitFor(() => seen.length > 0, { what: 'the message' })
      expect(seen).toEqual([[{ node, op: 'op-2' }, 'extracting', '']])
    })

    it('of a queue group one member gets each message, other subscribers get all', async () => {
      const { asker: sender, server: a, node } = await pair()
      const b = await connect()
      const seen = { a: 0, b: 0, everybody: 0 }
      a.subscribe(heartbeat, { node: '*' }, (_, to) => void (to.node === node && (seen.a += 1)), { queue: 'pulse' })
      b.subscribe(heartbeat, { node: '*' }, (_, to) => void (to.node === node && (seen.b += 1)), { queue: 'pulse' })
      b.subscribe(heartbeat, { node }, () => void (seen.everybody += 1))
      await settle(a, b)
      for (let seq = 0; seq < 200; seq += 1) sender.publish(heartbeat, { node }, beat(node, seq))
      await waitFor(() => seen.everybody === 200 && seen.a + seen.b >= 200, { what: 'all messages' })
      await settle(a, b)
      expect(seen.a + seen.b).toBe(200)
      expect(Math.min(seen.a, seen.b)).toBeGreaterThan(20)
    })

    it('B4 a slow handler loses its oldest messages, counted, with one log line, and delays no other', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const started = Promise.withResolvers<void>()
      const release = Promise.withResolvers<void>()
      const slow: number[] = []
      const quick: number[] = []
      receiver.subscribe(
        heartbeat,
        { node },
        async ({ seq }) => {
          slow.push(seq)
          started.resolve()
          await release.promise
        },
        { maxPending: 4 },
      )
      receiver.subscribe(heartbeat, { node }, ({ seq }) => void quick.push(seq))
      await settle(receiver)
      sender.publish(heartbeat, { node }, beat(node, 0))
      await started.promise
      for (let seq = 1; seq < 10; seq += 1) sender.publish(heartbeat, { node }, beat(node, seq))
      await waitFor(() => quick.length === 10, { what: 'the quick handler to get everything' })
      expect(receiver.stats().dropped).toBe(5)
      expect(logged('messages dropped: handler too slow')).toHaveLength(1)
      release.resolve()
      await waitFor(() => slow.length === 5, { what: 'the slow handler to get what was kept' })
      expect(slow).toEqual([0, 6, 7, 8, 9])
    })

    it('C16 a sender that floods loses its excess, counted, and nobody else loses a message', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const other = NodeId.parse(`${node}-other`)
      const [started, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const seen: string[] = []
      let overflows = 0
      receiver.subscribe(
        heartbeat,
        { node: '*' },
        async ({ node_id, seq }) => {
          seen.push(`${node_id === other ? 'other' : 'flood'} ${seq}`)
          started.resolve()
          await release.promise
        },
        { maxPending: 4, maxPerSubject: 2, onOverflow: () => void (overflows += 1) },
      )
      await settle(receiver)
      sender.publish(heartbeat, { node }, beat(node, 0))
      await started.promise
      sender.publish(heartbeat, { node: other }, beat(other, 1))
      for (let seq = 1; seq < 10; seq += 1) sender.publish(heartbeat, { node }, beat(node, seq))
      sender.publish(heartbeat, { node: other }, beat(other, 2))
      await waitFor(() => receiver.stats().received === 12, { what: 'everything to arrive' })
      expect(overflows).toBe(0)
      expect(receiver.stats().dropped).toBe(7)
      expect(logged('messages dropped: too many from one sender').length).toBeLessThan(7)
      release.resolve()
      await waitFor(() => seen.length === 5, { what: 'the messages that were kept' })
      expect(seen).toEqual(['flood 0', 'other 1', 'flood 1', 'flood 2', 'other 2'])
    })

    it('C16 every message that an overflowing inbox drops is reported to its subscriber', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const [started, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      let overflows = 0
      receiver.subscribe(
        heartbeat,
        { node },
        async () => {
          started.resolve()
          await release.promise
        },
        { maxPending: 4, onOverflow: () => void (overflows += 1) },
      )
      await settle(receiver)
      sender.publish(heartbeat, { node }, beat(node, 0))
      await started.promise
      for (let seq = 1; seq < 10; seq += 1) sender.publish(heartbeat, { node }, beat(node, seq))
      await waitFor(() => receiver.stats().received === 10, { what: 'everything to arrive' })
      expect(overflows).toBe(5)
      release.resolve()
    })

    it('C15 messages that do not match the definition are counted and dropped, the next one arrives', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const seen: number[] = []
      receiver.subscribe(heartbeat, { node }, ({ seq }) => void seen.push(seq))
      await settle(receiver)
      const loose = { ...heartbeat, message: backendStop.message }
      for (let i = 0; i < 100; i += 1) sender.publish(loose, { node }, { force: true })
      sender.publish(heartbeat, { node }, beat(node, 1))
      await waitFor(() => seen.length > 0, { what: 'the good message' })
      expect(seen).toEqual([1])
      expect(receiver.stats().malformed).toBe(100)
      expect(logged('message dropped: malformed').length).toBeLessThan(10)
    })

    it('a message that does not match the definition is not sent', async () => {
      const { asker: sender, node } = await pair()
      expect(() => sender.publish(heartbeat, { node }, { ...beat(node, 1), seq: 'one' as never })).toThrow(
        expect.objectContaining({ code: 'invalid', message: expect.stringContaining('seq') }),
      )
      expect(sender.stats().sent).toBe(0)
    })

    it('a handler that throws is logged, and gets the next message', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const seen: number[] = []
      receiver.subscribe(heartbeat, { node }, ({ seq }) => {
        seen.push(seq)
        if (seq === 1) throw new Error('first')
        if (seq === 2) return Promise.reject(new Error('second'))
        return undefined
      })
      await settle(receiver)
      for (const seq of [1, 2, 3]) sender.publish(heartbeat, { node }, beat(node, seq))
      await waitFor(() => seen.length === 3, { what: 'all three' })
      expect(logged('message handler failed')).toHaveLength(2)
    })

    it('messages published before a subscription are lost', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const seen: number[] = []
      sender.publish(heartbeat, { node }, beat(node, 1))
      await settle(sender)
      receiver.subscribe(heartbeat, { node }, ({ seq }) => void seen.push(seq))
      await settle(receiver)
      sender.publish(heartbeat, { node }, beat(node, 2))
      await waitFor(() => seen.length > 0, { what: 'a message' })
      expect(seen).toEqual([2])
    })

    it('nothing of the sender is shared with the receiver', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const seen: NodeEvent[] = []
      const topic = { ...heartbeat, message: modelLoad.request }
      receiver.subscribe(topic, { node }, (message) => void seen.push(message as never))
      await settle(receiver)
      const message = modelOfBytes(200)
      sender.publish(topic, { node }, message)
      message.config['text'] = 'changed'
      await waitFor(() => seen.length > 0, { what: 'the message' })
      expect(seen[0]).toMatchObject({ config: { text: expect.stringMatching(/^x+$/) } })
    })

    it('a stopped subscription waits for its handler, and gets nothing more', async () => {
      const { asker: sender, server: receiver, node } = await pair()
      const started = Promise.withResolvers<void>()
      const release = Promise.withResolvers<void>()
      const seen: number[] = []
      const subscription = receiver.subscribe(heartbeat, { node }, async ({ seq }) => {
        seen.push(seq)
        started.resolve()
        await release.promise
      })
      await settle(receiver)
      for (const seq of [1, 2, 3]) sender.publish(heartbeat, { node }, beat(node, seq))
      await started.promise
      let isStopped = false
      const stopped = subscription.stop().then(() => (isStopped = true))
      await settle(sender, receiver)
      expect(isStopped).toBe(false)
      release.resolve()
      await stopped
      sender.publish(heartbeat, { node }, beat(node, 4))
      await settle(sender, receiver)
      expect(seen).toEqual([1])
      await subscription.stop()
    })
  })

  describe('connection', () => {
    it('C1 after the server was lost and came back everything works again', async () => {
      const { asker, server, node } = await pair()
      const changes: boolean[] = []
      const seen: number[] = []
      const hang = Promise.withResolvers<never>()
      const started = Promise.withResolvers<void>()
      asker.onConnection((connected) => changes.push(connected))
      server.serve(opStatus, { node }, ({ op_id }) => {
        if (op_id !== 'slow') return running(op_id)
        started.resolve()
        return hang.promise
      })
      server.subscribe(heartbeat, { node: '*' }, ({ seq }, to) => void (to.node === node && seen.push(seq)))
      await settle(server)
      const inFlight = codeOf(asker.request(opStatus, { node }, { op_id: 'slow' }, { timeoutMs: 60_000 }))
      await started.promise

      await world.breakServer()
      await waitFor(() => !asker.isConnected() && !server.isConnected(), { what: 'the loss to be noticed' })
      expect(await inFlight).toBe('disconnected')
      const since = performance.now()
      expect(await codeOf(asker.request(opStatus, { node }, { op_id: op }, { timeoutMs: 60_000 }))).toBe('disconnected')
      expect(await codeOf(asker.ping(60_000))).toBe('disconnected')
      expect(performance.now() - since).toBeLessThan(5000)
      asker.publish(heartbeat, { node }, beat(node, 1))
      expect(asker.stats().dropped).toBe(1)
      const late = server.subscribe(heartbeat, { node }, ({ seq }) => void seen.push(seq * 100))

      await world.healServer()
      await waitFor(() => asker.isConnected() && server.isConnected(), { what: 'the connections to be back' })
      await settle(server)
      expect(await asker.request(opStatus, { node }, { op_id: op }, soon)).toMatchObject({ state: 'running' })
      asker.publish(heartbeat, { node }, beat(node, 2))
      await waitFor(() => seen.length === 2, { what: 'both subscriptions to get the message' })
      expect(seen.toSorted((a, b) => a - b)).toEqual([2, 200])
      expect(changes).toEqual([false, true])
      hang.reject(new Error('let go'))
      await late.stop()
    })

    it('a listener of the connection that throws is harmless, and a removed one receives nothing', async () => {
      const { asker, server } = await pair()
      const changes: boolean[] = []
      asker.onConnection(() => {
        throw new Error('listener')
      })
      const remove = asker.onConnection((connected) => changes.push(connected))
      asker.onConnection((connected) => !connected && remove())
      await world.breakServer()
      await waitFor(() => !asker.isConnected() && !server.isConnected(), { what: 'the loss to be noticed' })
      await world.healServer()
      await waitFor(() => asker.isConnected() && server.isConnected(), { what: 'the connection to be back' })
      expect(changes).toEqual([false])
    })

    it('close lets a handler finish and sends its reply', async () => {
      const { asker, server, node } = await pair()
      const started = Promise.withResolvers<void>()
      const release = Promise.withResolvers<void>()
      server.serve(opStatus, { node }, async ({ op_id }) => {
        started.resolve()
        await release.promise
        return { ...running(op_id), state: 'succeeded' as const }
      })
      await settle(server)
      const waiting = asker.request(opStatus, { node }, { op_id: op }, soon)
      await started.promise
      const closed = server.close()
      release.resolve()
      await closed
      expect(await waiting).toMatchObject({ state: 'succeeded' })
    })

    it('close ends requests as closed, is idempotent, and refuses later requests', async () => {
      const { asker, server, node } = await pair()
      const started = Promise.withResolvers<void>()
      const release = Promise.withResolvers<void>()
      const changes: boolean[] = []
      server.serve(opStatus, { node }, async ({ op_id }) => {
        started.resolve()
        await release.promise
        return running(op_id)
      })
      await settle(server)
      asker.onConnection((connected) => changes.push(connected))
      const waiting = codeOf(asker.request(opStatus, { node }, { op_id: op }, soon))
      await started.promise
      await Promise.all([asker.close(), asker.close()])
      await asker.close()
      expect(await waiting).toBe('closed')
      expect(asker.isConnected()).toBe(false)
      expect(changes).toEqual([false])
      expect(await codeOf(asker.request(opStatus, { node }, { op_id: op }, soon))).toBe('closed')
      expect(await codeOf(asker.ping(1000))).toBe('closed')
      expect(() => asker.subscribe(heartbeat, { node }, () => undefined)).toThrow(expect.objectContaining({ code: 'closed' }))
      asker.publish(heartbeat, { node }, beat(node, 1))
      release.resolve()
    })
  })
}
