// The life of replicas on one worker, with real processes and signals.
import { readFile, stat } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { identifyProcess, systemClock } from '@muster/host'
import { FleetError, OperationId, ReplicaId, type NodeEvent } from '@muster/protocol'
import { boundMs, waitFor } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import { askState, loadOf, replicaId, startReplicas, type ReplicasWorld } from '../../test/replicas-world.ts'
import { createOpenAiHttpDriver } from '../drivers/openai-http.ts'
import { findOrStartReplica, findReplica } from '../commands/legacy.ts'
import type { Admission } from './replicas.ts'

const opId = (text: string): OperationId => OperationId.parse(text)
const kill = (pid: number): void => void process.kill(pid, 'SIGKILL')
const quick = { pace: { graceMs: 500, leaveMs: 500 } }

function admitted(world: ReplicasWorld, id: string): Admission {
  const found = world.replicas.admit(ReplicaId.parse(id))
  if (typeof found === 'string') throw new Error(`it was not admitted: ${found}`)
  return found
}

describe('loads', () => {
  it('start one process, which is reported ready, and unload it again', async () => {
    await using world = await startReplicas()
    await world.serve('r-1', {}, { slot: 0 })
    expect(await world.pids('r-1')).toHaveLength(1)
    expect(world.replicas.running()).toMatchObject([{ replicaId: 'r-1', state: 'ready', inFlight: 0 }])
    expect(await world.ready('r-1')).toMatchObject({ op_id: 'op-r-1', model: 'm', revision: 'rev-1', backend_digest: world.digest })
    expect(world.work.status(opId('op-r-1'))).toMatchObject({ state: 'succeeded' })
    expect(world.ticks.map(({ op_id, phase, backend }) => [op_id, phase, backend])).toContainEqual(['op-r-1', 'starting', 'scripted'])
    await world.replicas.unload(replicaId('r-1'), { force: false })
    expect(await world.exited('r-1')).toMatchObject({ expected: true, exit_code: 0 })
    expect(await world.pids('r-1')).toEqual([])
  })

  it('S1.15 six callers for one replica share one start and one end', async () => {
    let starts = 0
    await using world = await startReplicas({ onStarted: () => (starts += 1) })
    const orders = Array.from({ length: 6 }, (_, n) => loadOf('r-1', {}, { slot: 0, op_id: `op-${n}` }))
    expect(await Promise.all(orders.map((order) => world.replicas.load(order)))).toEqual(orders.map(() => ({ accepted: true })))
    await world.ready('r-1')
    const told = (): string[] => world.events.flatMap((event) => (event.type === 'replica.ready' ? [event.op_id ?? ''] : []))
    await waitFor(() => new Set(told()).size === 6, { what: 'all six to hear of it' })
    expect([starts, (await world.pids('r-1')).length]).toEqual([1, 1])
  })

  it('S1.16 different slots and models load in parallel', async () => {
    await using world = await startReplicas()
    const orders = [loadOf('r-1', {}, { slot: 0 }), loadOf('r-2', {}, { slot: 1 }), loadOf('r-3', {}, { slot: 0, model: 'other' })]
    await Promise.all(orders.map((order) => world.replicas.load(order)))
    await Promise.all(['r-1', 'r-2', 'r-3'].map(world.ready))
    expect(new Set(await Promise.all(['r-1', 'r-2', 'r-3'].map(world.pid))).size).toBe(3)
  })

  it('S1.17 when a shared load fails, every caller gets the reason', async () => {
    await using world = await startReplicas()
    const orders = [1, 2, 3].map((n) => loadOf('r-1', { start_delay_ms: 200, crash_at_start: 'no such tensor' }, { op_id: `op-${n}` }))
    await Promise.all(orders.map((order) => world.replicas.load(order)))
    for (const op of ['op-1', 'op-2', 'op-3'])
      expect(await world.result(op)).toMatchObject({ state: 'failed', failure: { message: expect.stringContaining('no such tensor') } })
    // Heard again after its end, it is not carried out again: a replica's id is never used twice.
    expect(await world.replicas.load(loadOf('r-1', {}, { op_id: 'op-late' }))).toEqual({ accepted: true })
    expect(await world.result('op-late')).toMatchObject({ state: 'failed' })
    expect(await world.pids('r-1')).toEqual([])
  })

  it('I11 a load for a taken slot is refused, and one for a draining slot waits', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1', { ignore_sigterm: true }, { slot: 0 })
    expect(await world.replicas.load(loadOf('r-2', {}, { slot: 0 }))).toMatchObject({ failure: { code: 'conflict', retry: 'backoff' } })
    await world.replicas.unload(replicaId('r-1'), { force: true })
    expect(await world.replicas.load(loadOf('r-2', {}, { slot: 0 }))).toEqual({ accepted: true })
    expect(world.work.status(opId('op-r-2'))).toMatchObject({ state: 'accepted' })
    const oldOnes = await world.pids('r-1')
    expect(oldOnes).toHaveLength(1)
    await world.ready('r-2')
    const order = world.events.flatMap((event) => ('replica_id' in event ? [`${event.type} ${event.replica_id}`] : []))
    expect(order.indexOf('replica.exited r-1')).toBeLessThan(order.indexOf('replica.ready r-2'))
    expect(await world.pids('r-1')).toEqual([])
  })

  it('S1.2 S1.24 slow work on another backend does not delay a load', async () => {
    await using world = await startReplicas()
    await world.replicas.load(loadOf('r-slow', { start_delay_ms: 60_000 }, { model: 'slow' }))
    await world.serve('r-1')
    expect(world.replicas.running().map(({ replicaId: id, state }) => [id, state])).toEqual([
      ['r-slow', 'starting'],
      ['r-1', 'ready'],
    ])
  })

  it('a backend or a version that is not installed is named in a refusal to retry', async () => {
    await using world = await startReplicas()
    const missing = `sha256:${'9'.repeat(64)}`
    expect(await world.replicas.load(loadOf('r-1', {}, { backend: 'nobody' }))).toMatchObject({
      failure: { code: 'not_found', retry: 'backoff', message: expect.stringContaining('nobody') },
    })
    expect(await world.replicas.load(loadOf('r-1', {}, { digest: missing }))).toMatchObject({
      failure: { code: 'not_found', message: expect.stringContaining(missing) },
    })
    expect(world.replicas.running()).toEqual([])
    await world.serve('r-1')
  })

  it('an invalid configuration is refused for good', async () => {
    await using world = await startReplicas()
    expect(await world.replicas.load(loadOf('r-1', {}, { config: { context_size: 'much' } }))).toMatchObject({
      failure: { code: 'invalid', retry: 'never', message: expect.stringContaining('context_size') },
    })
  })

  it('a stage-only load starts nothing, and ends', async () => {
    await using world = await startReplicas()
    await world.replicas.load(loadOf('r-1', {}, { stage_only: true }))
    expect(await world.result('op-r-1')).toMatchObject({ state: 'succeeded' })
    expect(await world.pids('r-1')).toEqual([])
  })

  it('a stage-only load needs no backend on this node', async () => {
    await using world = await startReplicas()
    expect(await world.replicas.load(loadOf('r-1', {}, { stage_only: true, backend: 'nobody' }))).toEqual({ accepted: true })
    expect(await world.result('op-r-1')).toMatchObject({ state: 'succeeded' })
  })

  it('are cancelled by their operation, and their process is gone', async () => {
    await using world = await startReplicas(quick)
    await world.replicas.load(loadOf('r-1', { never_listen: true }))
    await world.pid('r-1')
    // It waits for a second at most: on a busy machine the process may live longer.
    await world.work.cancel(opId('op-r-1'))
    expect(await world.result('op-r-1')).toMatchObject({ state: 'cancelled', failure: { code: 'cancelled' } })
    expect(await world.work.cancel(opId('op-r-1'))).toMatchObject({ state: 'cancelled' })
    expect(await world.pids('r-1')).toEqual([])
    expect(await world.work.cancel(opId('op-other'))).toMatchObject({ state: 'unknown' })
    expect(world.work.status(opId('op-other'))).toMatchObject({ state: 'unknown' })
  })

  it('give a process only the allow-listed environment', async () => {
    await using world = await startReplicas()
    await world.serve('r-1')
    const { env, cwd } = await askState(world, 'r-1')
    expect(env).toEqual(expect.arrayContaining(['PATH', 'MUSTER_REPLICA_ID', 'MUSTER_WORKER_ID', 'MUSTER_MODEL_NAME']))
    expect(env.filter((name) => name.includes('SECRET') || name.startsWith('NODE_'))).toEqual([])
    expect(cwd).toBe(world.store.treePath(world.digest))
  })
})

describe('processes that misbehave', () => {
  it('F1 one that exits before it is ready is reported with its last output, and frees its slot', async () => {
    await using world = await startReplicas()
    await world.replicas.load(loadOf('r-1', { crash_at_start: 'no such tensor', exit_code: 3 }, { slot: 0 }))
    expect(await world.result('op-r-1')).toMatchObject({
      state: 'failed',
      failure: { code: 'unavailable', retry: 'backoff', message: expect.stringMatching(/exit code 3[^]*no such tensor/) },
    })
    await world.replicas.load(loadOf('r-2', { crash_at_start: 'x', crash_signal: 'SIGSEGV' }, { slot: 0 }))
    expect(await world.result('op-r-2')).toMatchObject({ failure: { message: expect.stringContaining('SIGSEGV') } })
    await waitFor(() => world.replicas.running().length === 0, { what: 'the slot to be free' })
  })

  it('one whose connection breaks because it ends is reported with its exit and last output, not as a lost connection', async () => {
    const lost = new FleetError({ code: 'unavailable', retry: 'backoff', message: 'Connection dropped' })
    const driver = createOpenAiHttpDriver({ clock: systemClock })
    const drivers = { 'openai-http': { ...driver, addressKind: () => 'unix' as const, waitUntilReady: () => Promise.reject(lost) } }
    await using world = await startReplicas({ ...quick, drivers })
    await world.replicas.load(loadOf('r-1', { start_delay_ms: 300, crash_at_start: 'no such tensor', exit_code: 3 }))
    const message = expect.stringMatching(/^its process ended before it was ready: exit code 3[^]*no such tensor/)
    expect(await world.result('op-r-1')).toMatchObject({ state: 'failed', failure: { code: 'unavailable', message } })
    await world.replicas.load(loadOf('r-2', { never_listen: true }))
    expect(await world.result('op-r-2')).toMatchObject({
      failure: { message: expect.stringMatching(/^Connection dropped; last output:\n.*a test double/) },
    })
  })

  it.each([
    [{ never_listen: true }, /127\.0\.0\.1:\d+ was tried \d+ times; at last nothing listened there/],
    [{ hang_at_readiness: true }, /GET \/health was tried \d+ times; at last it gave no answer/],
    [{ unhealthy: true }, /GET \/health was tried \d+ times; at last it answered 503/],
  ])('F2 one that is never ready (%o) is stopped after silence', async (life, asked) => {
    await using world = await startReplicas({ pace: { silenceMs: 1_000, graceMs: 500 } })
    await world.replicas.load(loadOf('r-1', { ...life, ignore_sigterm: true }))
    expect(await world.result('op-r-1')).toMatchObject({
      state: 'failed',
      failure: { code: 'timeout', retry: 'backoff', message: expect.stringMatching(/no sign of life for 1 s[^]*a test double/) },
    })
    expect((await world.result('op-r-1')).failure?.message).toMatch(asked)
    expect(await world.pids('r-1')).toEqual([])
  })

  it('F3 W39 S3.11 one that is killed is noticed at once, and the next load has a fresh process', async () => {
    await using world = await startReplicas()
    await world.serve('r-1', {}, { slot: 0 })
    const [pid, at] = [await world.pid('r-1'), performance.now()]
    kill(pid)
    expect(await world.exited('r-1')).toMatchObject({
      signal: 'SIGKILL',
      expected: false,
      last_lines: [expect.stringContaining('a test double')],
    })
    expect(performance.now() - at).toBeLessThan(boundMs(1_000))
    expect(world.replicas.admit(replicaId('r-1'))).toBe('gone')
    await world.serve('r-2', {}, { slot: 0 })
    expect(await world.pid('r-2')).not.toBe(pid)
  })

  it.each(['unload', 'crash'])('F7 grandchildren in a session of their own go with it, by %s', async (how) => {
    await using world = await startReplicas(quick)
    await world.serve('r-1', { daemonise: true })
    const pids = await waitFor(async () => ((await world.pids('r-1')).length >= 2 ? await world.pids('r-1') : null), {
      what: 'the grandchild',
    })
    if (how === 'crash') kill(await servingPid(world, 'r-1'))
    else await world.replicas.unload(replicaId('r-1'), { force: false })
    await world.exited('r-1')
    expect(pids.filter(isRunning)).toEqual([])
    expect(await world.pids('r-1')).toEqual([])
  })

  it('F8 one that ignores SIGTERM is killed after its grace time, and counts as running until then', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1', { ignore_sigterm: true })
    const at = performance.now()
    await world.replicas.unload(replicaId('r-1'), { force: true })
    await waitFor(() => world.replicas.running()[0]?.state === 'draining', { what: 'it to be stopping' })
    expect(await world.exited('r-1')).toMatchObject({ signal: 'SIGKILL', expected: true })
    expect(performance.now() - at).toBeGreaterThanOrEqual(450)
  })

  it('a worker that exits at once leaves no process, and a load that was under way begins anew at the next start', async () => {
    const world = await startReplicas({ pace: { ...quick.pace, graceMs: 60_000, leaveMs: 60_000 } })
    await world.serve('r-1', { ignore_sigterm: true, daemonise: true })
    await world.replicas.load(loadOf('r-2', { hang_at_readiness: true }))
    await world.pid('r-2')
    // The first signal asked it to stop.
    void world.replicas.stop()
    await world.replicas.kill()
    expect([...(await world.pids('r-1')), ...(await world.pids('r-2'))]).toEqual([])
    expect(await world.exited('r-1')).toMatchObject({ expected: true })
    await waitFor(() => world.replicas.all().some(({ id, record }) => id === 'r-2' && record.stage.state === 'accepted'), {
      what: 'the load to be left to the next start',
    })
    await world[Symbol.asyncDispose]()
  })

  it('F10 I14 a port that another program took first is never trusted', async () => {
    const usual = createOpenAiHttpDriver({ clock: systemClock })
    let thief: Server | null = null
    const robbed = {
      ...usual,
      launch: (...[spec, address]: Parameters<typeof usual.launch>) => {
        const listener = createServer((_, response) => response.end(JSON.stringify({ status: 'ok', model: 'm', replica_id: 'r-1' })))
        if (address.kind === 'tcp') thief = listener.listen(address.port, address.host)
        return usual.launch(spec, address)
      },
    }
    await using world = await startReplicas({ drivers: { 'openai-http': robbed }, ...quick })
    // It would go on without its port forever, while the thief says all that is expected of it.
    await world.replicas.load(loadOf('r-1', { never_listen: true }))
    expect(await world.result('op-r-1')).toMatchObject({
      state: 'failed',
      failure: { code: 'unavailable', message: /another program took port/ },
    })
    expect(await world.pids('r-1')).toEqual([])
    closing(thief)
  })

  it('F11 one that answers for another model is not served', async () => {
    await using world = await startReplicas(quick)
    await world.replicas.load(loadOf('r-1', { claims_model: 'another' }))
    expect(await world.result('op-r-1')).toMatchObject({ state: 'failed', failure: { code: 'conflict', message: /another/ } })
    expect(await world.pids('r-1')).toEqual([])
  })

  it('F12 W24 a busy process that does not answer is left alone', async () => {
    // Its start has to be quicker than that too.
    const silenceMs = boundMs(500)
    await using world = await startReplicas({ pace: { silenceMs, graceMs: 500 } })
    await world.serve('r-1')
    const pid = await world.pid('r-1')
    const busy = askState(world, 'r-1', { block_ms: 4 * silenceMs })
    const at = performance.now()
    expect(await busy).toMatchObject({ pid })
    expect(performance.now() - at).toBeGreaterThan(3.8 * silenceMs)
    expect(world.replicas.running()).toMatchObject([{ state: 'ready' }])
    expect(world.events.filter(({ type }) => type === 'replica.exited')).toEqual([])
  })

  it('F14 one that floods its log fills neither disk nor memory', async () => {
    await using world = await startReplicas(quick)
    const before = process.memoryUsage().rss
    await world.serve('r-1', { log_flood: true, log_line_bytes: 20_000_000 })
    const sizes = (): Promise<number[]> =>
      Promise.all(['', '.1', '.2'].map(async (end) => (await stat(`${world.root}/logs/r-1.log${end}`).catch(() => ({ size: -1 }))).size))
    await waitFor(async () => (await sizes()).every((size) => size >= 0), { what: 'the log to be cut twice' })
    kill(await world.pid('r-1'))
    const { last_lines: lines } = await world.exited('r-1')
    expect(lines?.length).toBeLessThanOrEqual(20)
    expect(lines?.every((line) => line.length <= 1_000)).toBe(true)
    const [, first = 0, second = 0] = await sizes()
    expect(Math.max(first, second)).toBeLessThanOrEqual(20 * 1024 ** 2)
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * 1024 ** 2)
  })
})

describe('unloading', () => {
  it('W16 stops exactly the named replica', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1', {}, { slot: 0 })
    await world.serve('r-2', {}, { slot: 1 })
    const other = await world.pid('r-2')
    await world.replicas.unload(replicaId('r-1'), { force: true })
    await world.exited('r-1')
    expect(await world.replicas.unload(replicaId('r-unknown'), { force: true })).toEqual({ accepted: true })
    expect(await world.pid('r-2')).toBe(other)
    expect(world.replicas.running().map(({ replicaId: id }) => id)).toEqual(['r-2'])
  })

  it('lets requests end, takes no new ones, and does not wait when forced', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1')
    const [first, second] = [admitted(world, 'r-1'), admitted(world, 'r-1')]
    expect([world.replicas.inFlight(), world.replicas.running()[0]?.inFlight]).toEqual([2, 2])
    await world.replicas.unload(replicaId('r-1'), { force: false })
    await waitFor(() => world.replicas.running()[0]?.state === 'draining', { what: 'it to drain' })
    expect(world.replicas.admit(replicaId('r-1'))).toBe('draining')
    first[Symbol.dispose]()
    first[Symbol.dispose]()
    expect(world.replicas.inFlight()).toBe(1)
    expect(isRunning(await world.pid('r-1'))).toBe(true)
    await world.replicas.unload(replicaId('r-1'), { force: true })
    await world.exited('r-1')
    second[Symbol.dispose]()
    expect(world.replicas.inFlight()).toBe(0)
  })

  it('waits for the last request for a limited time', async () => {
    await using world = await startReplicas({ pace: { drainMs: 300, graceMs: 500 } })
    await world.serve('r-1')
    using _ = admitted(world, 'r-1')
    await world.replicas.unload(replicaId('r-1'), { force: false })
    expect(await world.exited('r-1')).toMatchObject({ expected: true })
  })

  it('S1.27 S3.3 stops the processes of one backend with all its models and slots, or of all', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1', {}, { slot: 0 })
    await world.serve('r-2', {}, { slot: 1 })
    await world.serve('r-3', {}, { model: 'other' })
    await world.replicas.stopBackend(world.name('another'), { force: true })
    expect(world.replicas.running()).toHaveLength(3)
    await world.replicas.stopBackend(world.name('scripted'), { force: true })
    expect(world.replicas.running()).toEqual([])
    await world.serve('r-4')
    await world.replicas.stopBackend(null, { force: false })
    expect((await Promise.all(['r-1', 'r-2', 'r-3', 'r-4'].map(world.pids))).flat()).toEqual([])
  })

  it('a model that is removed leaves neither process nor record nor log', async () => {
    const removed: string[] = []
    await using world = await startReplicas({ ...quick, models: { stage: staged, remove: async (model) => void removed.push(model) } })
    await world.serve('r-1')
    await world.replicas.removeModel(world.model('m'))
    expect([removed, await world.pids('r-1'), await world.kept()]).toEqual([['m'], [], []])
  })

  it('a model that is removed lets its requests end first', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1')
    const admission = world.replicas.admit(replicaId('r-1'))
    if (typeof admission === 'string') throw new Error(admission)
    const removing = world.replicas.removeModel(world.model('m'))
    await waitFor(() => world.replicas.admit(replicaId('r-1')) === 'draining', { what: 'the replica to be drained' })
    expect(await world.pids('r-1')).toHaveLength(1)
    admission[Symbol.dispose]()
    await removing
    expect(await world.pids('r-1')).toEqual([])
  })

  it('a worker that stops leaves no process, and one whose node was removed leaves no files either', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1', { daemonise: true })
    await world.replicas.load(loadOf('r-2', { never_listen: true }))
    await world.pid('r-2')
    await world.replicas.forget()
    expect([await world.pids('r-1'), await world.pids('r-2'), await world.kept()]).toEqual([[], [], []])
    await world.serve('r-3')
    await world.replicas.stop()
    expect(await world.pids('r-3')).toEqual([])
    expect(await world.replicas.load(loadOf('r-4'))).toMatchObject({ failure: { code: 'unavailable' } })
  })
})

describe('events', () => {
  it('are published again when the bus is back', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1', {}, { slot: 0 })
    await world.serve('r-2', {}, { slot: 1 })
    world.interrupt()
    kill(await world.pid('r-2'))
    await waitFor(() => world.replicas.running().length === 1, { what: 'the end to be noticed' })
    const before = world.events.length
    world.restore()
    const told = (): readonly NodeEvent[] => world.events.slice(before)
    await waitFor(() => told().some((event) => event.type === 'replica.exited' && event.replica_id === 'r-2'), { what: 'the exit' })
    expect(told().some((event) => event.type === 'replica.ready' && event.replica_id === 'r-1')).toBe(true)
  })
})

describe('controllers that do not know model.load', () => {
  const portOf = async (world: ReplicasWorld, id: string): Promise<number> => {
    const record = JSON.parse(await readFile(`${world.root}/replicas/${id}.json`, 'utf8')) as {
      stage: { run: { address: { port: number } } }
    }
    return record.stage.run.address.port
  }

  it('S1.19 S3.9 S3.12 find the running replica, and W27 nothing starts without a request', async () => {
    await using world = await startReplicas(quick)
    const named = { backend: world.name('scripted'), model: world.model('m'), slot: 0 }
    expect(await findReplica(named, world)).toBeNull()
    await expect(findOrStartReplica(named, world)).rejects.toMatchObject({ failure: { code: 'invalid', message: /never loaded/ } })
    expect(world.replicas.running()).toEqual([])
    await world.serve('r-1', { claims_model: 'm' }, { slot: 0 })
    expect([await findReplica(named, world), await findOrStartReplica(named, world)]).toEqual(['r-1', 'r-1'])
    expect(await findReplica({ ...named, slot: 1 }, world)).toBeNull()
  })

  it('S3.5 S3.9 S3.10 get a fresh process on a new port when the one they knew is dead or was stopped', async () => {
    await using world = await startReplicas(quick)
    const named = { backend: world.name('scripted'), model: world.model('m'), slot: 0 }
    await world.serve('r-1', { start_delay_ms: 10 }, { slot: 0 })
    const ports = [await portOf(world, 'r-1')]
    const pid = await world.pid('r-1')
    kill(pid)
    await waitFor(() => !isRunning(pid), { what: 'it to be dead' })
    const second = await findOrStartReplica(named, world)
    expect(second).not.toBe('r-1')
    // As the last load of the model on this node had it.
    expect(await askState(world, second)).toMatchObject({ model: 'm', options: { start_delay_ms: 10 }, replica_id: second })
    ports.push(await portOf(world, second))
    await world.replicas.stopBackend(named.backend, { force: true })
    const third = await findOrStartReplica(named, world)
    ports.push(await portOf(world, third))
    expect(new Set(ports).size).toBe(3)
    expect([await world.pids('r-1'), await world.pids(second)]).toEqual([[], []])
  })
})

describe('trees', () => {
  it('E19 E20 stay while a process runs from them, whatever is installed or removed meanwhile', async () => {
    await using world = await startReplicas(quick)
    await world.serve('r-1', {}, { slot: 0 })
    for (const version of ['2.0.0', '3.0.0', '4.0.0']) await world.install(version)
    await world.store.collect(new AbortController().signal)
    expect(await askState(world, 'r-1')).toMatchObject({ build: '1.0.0' })
    expect(await world.store.summary(world.digest)).not.toBeNull()
    await world.serve('r-2', {}, { slot: 1 })
    expect(await askState(world, 'r-2')).toMatchObject({ build: '4.0.0' })
    await world.replicas.unload(replicaId('r-1'), { force: true })
    await world.exited('r-1')
    await waitFor(
      async () => {
        await world.store.collect(new AbortController().signal)
        return (await world.store.summary(world.digest)) === null
      },
      { what: 'the old tree to go' },
    )
  })
})

const staged = async () => ({ directory: '/', [Symbol.dispose]: () => undefined })

/** A zombie has ended: who reaps it is not our affair. */
const isRunning = (pid: number): boolean => identifyProcess(pid) !== null

const servingPid = async (world: ReplicasWorld, id: string): Promise<number> => (await askState(world, id)).pid
const closing = (server: Server | null): void => void server?.close()
