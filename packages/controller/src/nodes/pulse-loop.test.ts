// The loop with a clock, a bus and a database of its own making: what it does, and in which order.
import { createLocalHub } from '@muster/bus'
import { silentLog, type Clock } from '@muster/host'
import { heartbeat, NodeId, Incarnation, type Heartbeat } from '@muster/protocol'
import { expect, it } from 'vitest'
import type { PulseStore } from '../store/pulses.ts'
import { createInbound } from '../work/exchange.ts'
import { PulseLoop } from './pulse-loop.ts'

const nodeTimeoutMs = 15_000

/** A world in which a tick takes no time, and time passes only while the loop sleeps. */
function world() {
  const state = { now: 0, databaseOffsetMs: 1_000_000, isDatabaseUp: true, sweeps: [] as number[], did: [] as string[] }
  const stopping = new AbortController()
  let until = 0
  let meanwhile: (now: number) => void = () => undefined
  const clock: Clock = {
    now: () => state.now,
    monotonic: () => state.now,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted()
      state.now += ms
      if (state.now >= until) stopping.abort()
      meanwhile(state.now)
      // A turn of the event loop, in which messages arrive.
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
  const hub = createLocalHub({ log: silentLog })
  const needDatabase = (): void => {
    if (!state.isDatabaseUp) throw new Error('no database')
  }
  const pulses = {
    recordBeats: async (beats: readonly unknown[]) => (needDatabase(), state.did.push(`wrote ${beats.length}`), beats.length),
    databaseNow: async () => (needDatabase(), state.databaseOffsetMs + state.now),
    sweep: async () => (needDatabase(), state.sweeps.push(state.now), state.did.push('swept'), []),
    takeUnproven: async () => [],
  } as unknown as PulseStore
  const bus = hub.connect()
  const loop = new PulseLoop({
    bus,
    pulses,
    clock,
    log: silentLog,
    silence: { nodeTimeoutMs, offlineAfterMs: 600_000 },
    probeUnproven: async () => undefined,
    onBeat: () => undefined,
    onTick: () => undefined,
  })
  const receivers = { heartbeat: [(beat: Heartbeat) => loop.receive(beat)], lostHeartbeat: () => loop.recordLostBeat() }
  const inbound = createInbound({ bus, receivers, log: silentLog })
  return {
    state,
    hub,
    loop,
    /** For so long; `doing` is called whenever time has passed. */
    run: async (ms: number, doing: (now: number) => void = () => undefined) => {
      until = state.now + ms
      meanwhile = doing
      await Promise.all([inbound.run(stopping.signal), loop.run(stopping.signal)])
    },
  }
}

it('judges once it has listened for a node timeout, every second from then on', async () => {
  const { state, run } = world()
  await run(20_000)
  expect(state.sweeps[0]).toBeGreaterThan(nodeTimeoutMs)
  expect(state.sweeps.length).toBeGreaterThanOrEqual(3)
})

it('I23 does not judge when the clock of the database jumps, not even in that very second', async () => {
  const { state, run } = world()
  let jumpedAt = 0
  await run(40_000, (now) => {
    if (now < 20_000 || jumpedAt > 0) return
    jumpedAt = now
    state.databaseOffsetMs += 3_600_000
  })
  expect(jumpedAt).toBeGreaterThan(0)
  expect(state.sweeps.filter((at) => at > jumpedAt && at <= jumpedAt + nodeTimeoutMs)).toEqual([])
})

it('does not judge in the first second after the process stood still', async () => {
  const { state, run } = world()
  let stoodAt = 0
  await run(60_000, (now) => {
    if (now < 20_000 || stoodAt > 0) return
    state.now += 30_000
    stoodAt = state.now
  })
  expect(state.sweeps.filter((at) => at >= stoodAt && at <= stoodAt + nodeTimeoutMs)).toEqual([])
})

it.each(['bus', 'database'])('does not judge while the %s is away, nor within a node timeout after', async (what) => {
  const { state, hub, run } = world()
  let [awayAt, backAt] = [0, 0]
  await run(70_000, (now) => {
    if (awayAt === 0 && now > 20_000) {
      awayAt = now
      if (what === 'bus') hub.interrupt()
      else state.isDatabaseUp = false
    } else if (awayAt > 0 && backAt === 0 && now > 40_000) {
      backAt = now
      if (what === 'bus') hub.restore()
      else state.isDatabaseUp = true
    }
  })
  expect(backAt).toBeGreaterThan(0)
  expect(state.sweeps.filter((at) => at > awayAt + 1_000 && at <= backAt + nodeTimeoutMs)).toEqual([])
  expect(state.sweeps.some((at) => at > backAt + nodeTimeoutMs)).toBe(true)
})

const beatOf = (name: string, seq: number) => {
  const node = NodeId.parse(name)
  return [{ node }, { node_id: node, incarnation: Incarnation.parse('i'), seq, version: '0', resources: {} }] as const
}

it('C16 does not judge when its inbox lost heartbeats, nor within a node timeout after', async () => {
  const { state, hub, run } = world()
  const worker = hub.connect()
  let floodedAt = 0
  await run(60_000, (now) => {
    if (now < 20_000 || floodedAt > 0) return
    floodedAt = now
    for (let i = 0; i < 10_000; i += 1) worker.publish(heartbeat, ...beatOf(`n-${i}`, 1))
  })
  expect(floodedAt).toBeGreaterThan(0)
  expect(state.sweeps.some((at) => at < floodedAt)).toBe(true)
  expect(state.sweeps.filter((at) => at >= floodedAt && at <= floodedAt + nodeTimeoutMs)).toEqual([])
  expect(state.sweeps.some((at) => at > floodedAt + nodeTimeoutMs)).toBe(true)
})

it('C16 a node that floods hides no heartbeat of another node and does not keep the controller from judging', async () => {
  const { state, hub, run } = world()
  const worker = hub.connect()
  let rounds = 0
  await run(20_000, () => {
    rounds += 1
    for (let i = 0; i < 50; i += 1) worker.publish(heartbeat, ...beatOf(`n-${i}`, rounds))
    for (let i = 0; i < 9_000; i += 1) worker.publish(heartbeat, ...beatOf('flood', rounds * 10_000 + i))
  })
  expect(state.did.filter((what) => what === 'wrote 51').length).toBeGreaterThan(10)
  expect(state.sweeps.length).toBeGreaterThan(0)
})

it('remembers only a few processes of a node that invents them', async () => {
  const { state, loop, run } = world()
  await run(3_000, () => {
    for (let i = 0; i < 1_000; i += 1) {
      const [, beat] = beatOf('inventive', i)
      loop.noteHttpBeat({ ...beat, incarnation: Incarnation.parse(`i-${i}`), in_flight: 0, seq: i, resources: null })
    }
  })
  expect(state.did.filter((what) => what.startsWith('wrote'))).toContain('wrote 4')
  expect(state.did).not.toContain('wrote 1000')
})

it('writes received heartbeats before it marks nodes, and keeps those that could not be written', async () => {
  const { state, hub, run } = world()
  const [node, incarnation] = [NodeId.parse('n-1'), Incarnation.parse('i')]
  const worker = hub.connect()
  let seq = 0
  let lastWrite = 0
  await run(30_000, (now) => {
    state.isDatabaseUp = now < 5_000 || now > 8_000
    if (now - lastWrite < 1_000) return
    lastWrite = now
    worker.publish(heartbeat, { node }, { node_id: node, incarnation, seq: (seq += 1), version: '0', resources: {} })
  })
  const firstSweep = state.did.indexOf('swept')
  expect(state.did.slice(0, firstSweep)).toContain('wrote 1')
  expect(state.did.filter((what) => what === 'wrote 1').length).toBeGreaterThan(10)
})
