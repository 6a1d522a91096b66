import { cp, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BusError, connectNats, type Bus } from '@muster/bus'
import { mintGatewayToken, openDataDir, silentLog, systemClock } from '@muster/host'
import {
  backendList,
  gatewayPaths,
  gatewayScope,
  heartbeat,
  nodeEvents,
  nodeStop,
  ReplicaId,
  type Heartbeat,
  type NodeEvent,
  type NodeId,
} from '@muster/protocol'
import { boundMs, freePort, makeTempDir, startNats, waitFor } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { apiError, createFakeCluster, startFakeController, type FakeController } from '../../test/fake-controller.ts'
import { newHub, startTestWorker, type TestWorker, type TestWorkerOptions } from '../../test/start-test-worker.ts'

const cleanup: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0).toReversed()) await undo()
})
function tidy<T extends AsyncDisposable>(thing: T): T {
  cleanup.push(async () => thing[Symbol.asyncDispose]())
  return thing
}

/** A cluster with one controller, an ear on its bus, and a directory for a worker. */
async function world({ token = 'right' }: { token?: string | null } = {}) {
  const cluster = createFakeCluster()
  const controller = tidy(await startFakeController(cluster))
  const hub = newHub()
  const directory = tidy(await makeTempDir('worker')).path
  const ear = listen(hub.connect())
  const start = async (options: Partial<TestWorkerOptions> = {}): Promise<TestWorker> =>
    tidy(await startTestWorker({ directory, join: controller.url, hub, token, ...options }))
  const approve = (): void => {
    for (const node of cluster.nodes.values()) node.approved = true
    cluster.changed()
  }
  const remove = (id: string): void => {
    cluster.nodes.delete(id)
    cluster.changed()
  }
  return { cluster, controller, hub, directory, start, approve, remove, ...ear }
}

function listen(bus: Bus) {
  const beats: Heartbeat[] = []
  const events: NodeEvent[] = []
  bus.subscribe(heartbeat, { node: '*' }, (beat) => void beats.push(beat))
  // Not what is installed: these tests are about coming and going.
  bus.subscribe(nodeEvents, { node: '*' }, (event) => void (event.type !== 'inventory' && events.push(event)))
  const oneMore = async (from = beats.length): Promise<Heartbeat> => {
    await waitFor(() => beats.length > from, { what: 'one more heartbeat' })
    return beats.at(-1) as Heartbeat
  }
  return { bus, beats, events, oneMore }
}

const pendingNode = ({ nodes }: ReturnType<typeof createFakeCluster>) =>
  waitFor(() => [...nodes.values()][0], { what: 'a node to register' })
const polled = (controller: FakeController, count: number) =>
  waitFor(() => controller.polls.length >= count, { what: `${count} session polls` })
const ready = (worker: TestWorker, status: number) =>
  waitFor(async () => (await fetch(`${gatewayOf(worker)}/readyz`)).status === status, { what: `readyz to be ${status}` })
const gateways = new WeakMap<TestWorker, string>()
function gatewayOf(worker: TestWorker): string {
  const url = gateways.get(worker)
  if (url === undefined) throw new Error('not noted')
  return url
}
const noteGateway = (worker: TestWorker, url: string): void => void gateways.set(worker, url)

describe('joining', () => {
  it('waits for approval, logs the command to run once, then serves, publishes heartbeats and a goodbye', async () => {
    const { cluster, controller, start, approve, beats, events, bus, oneMore } = await world()
    const worker = await start({ flags: { labels: 'rack=7,team=red', name: 'gpu 1' } })
    const node = await pendingNode(cluster)
    expect(node.registration).toMatchObject({
      name: 'gpu 1',
      node_type: 'backend',
      features: ['async', 'progress', 'upgrade'],
      os: process.platform,
      capability: 'default',
      labels: { rack: '7', team: 'red' },
      gateway_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      resources: {
        total_ram: expect.any(Number),
        available_ram: expect.any(Number),
        total_disk: expect.any(Number),
        total_vram: null,
        gpu_vendor: null,
      },
    })
    noteGateway(worker, node.registration.gateway_url)
    cluster.isImpatient = true
    cluster.changed()
    await polled(controller, 2)
    cluster.isImpatient = false
    expect(beats).toEqual([])
    await ready(worker, 503)
    const said = worker.log.lines.filter(({ message }) => message.includes('approval'))
    expect(said).toMatchObject([{ fields: { run: `muster nodes approve ${node.id}` } }])

    approve()
    await oneMore(0)
    expect(beats[0]).toMatchObject({ node_id: node.id, seq: 0, incarnation: node.registration.incarnation, in_flight: 0, ops: [] })
    expect(await bus.request(backendList, { node: node.id }, {}, { timeoutMs: 1000 })).toMatchObject({ backends: [] })
    await ready(worker, 200)
    expect(worker.nodeId()).toBe(node.id)

    await worker.stop()
    expect(await worker.ended).toMatchObject({ code: 0 })
    await waitFor(() => events.length > 0, { what: 'the goodbye' })
    expect(events).toMatchObject([{ type: 'leaving', incarnation: node.registration.incarnation }])
    expect(events[0]?.seq).toBeGreaterThan(beats.at(-1)?.seq ?? Infinity)
    await expect(bus.request(backendList, { node: node.id }, {}, { timeoutMs: 1000 })).rejects.toMatchObject({ code: 'no_responders' })
  })

  it('ends, with the command to run, when the token is wrong or missing', async () => {
    for (const [token, want] of [
      ['wrong', 'is not accepted'],
      [null, 'needs the join token'],
    ] as const) {
      const { start, controller } = await world({ token })
      const worker = await start()
      expect(await worker.ended).toEqual({
        code: 1,
        message: expect.stringMatching(new RegExp(`${want}.*muster worker --join ${controller.url} --token`)),
      })
    }
  })

  it('reports the refusal of a controller whose bus is local', async () => {
    const { controller, start } = await world()
    controller.intercept = () => apiError(409, 'bus_is_local')
    expect(await (await start()).ended).toEqual({ code: 1, message: 'because of bus_is_local' })
  })

  it('needs a known controller', async () => {
    const { directory } = await world()
    await expect(startTestWorker({ directory })).rejects.toThrow('muster worker --join')
  })

  it('signs with the controllers’ time when its own clock is wrong', async () => {
    const { cluster, controller, start, approve, oneMore } = await world()
    controller.now = () => new Date(Date.now() - 3 * 3_600_000)
    const worker = await start()
    await pendingNode(cluster)
    approve()
    await oneMore()
    expect(worker.log.lines.filter(({ message }) => message.includes('clock'))).toHaveLength(1)
  })

  it('of an agent node serves no subject about backends', async () => {
    const { cluster, start, approve, oneMore, bus } = await world()
    await start({ flags: { type: 'agent' } })
    const { id, registration } = await pendingNode(cluster)
    expect(registration.node_type).toBe('agent')
    approve()
    await oneMore()
    await expect(bus.request(backendList, { node: id }, {}, { timeoutMs: 1000 })).rejects.toBeInstanceOf(BusError)
  })
})

describe('a member', () => {
  async function member(token: string | null = 'right') {
    const all = await world()
    const worker = await all.start()
    const node = await pendingNode(all.cluster)
    noteGateway(worker, node.registration.gateway_url)
    all.approve()
    await all.oneMore()
    if (token !== null) return { ...all, worker, node }
    await worker.stop()
    const again = await all.start({ token: null })
    await all.oneMore()
    return { ...all, worker: again, node }
  }

  it('W22 takes renewed credentials and new settings without registering again or leaving the bus', async () => {
    const { cluster, controller, node, beats, events, oneMore } = await member()
    const polls = controller.polls.length
    cluster.bus = { ...cluster.bus, expires_at: '2030-01-01T00:00:00Z' }
    cluster.settings = { ...cluster.settings, heartbeat_interval_ms: 20 }
    cluster.changed()
    await polled(controller, polls + 1)
    await oneMore()
    expect(node.registrations).toBe(1)
    const seqs = beats.map(({ seq }) => seq)
    expect(seqs).toEqual([...new Set(seqs)].toSorted((a, b) => a - b))
    expect(events).toEqual([])
  })

  it('that restarts needs no token, keeps its ID and is a new incarnation', async () => {
    const { cluster, node, worker, start, beats, oneMore } = await member()
    const before = node.registration.incarnation
    await worker.stop()
    const again = await start({ token: null })
    expect(await oneMore()).toMatchObject({ node_id: node.id })
    expect(again.nodeId()).toBe(node.id)
    expect(cluster.nodes.size).toBe(1)
    expect(new Set(beats.map(({ incarnation }) => incarnation))).toEqual(new Set([before, node.registration.incarnation]))
    expect(before).not.toBe(node.registration.incarnation)
  })

  it('remembers where it joined', async () => {
    const { worker, directory, hub, oneMore, node } = await member()
    await worker.stop()
    tidy(await startTestWorker({ directory, hub }))
    expect(await oneMore()).toMatchObject({ node_id: node.id })
  })

  it('restarts with its remembered settings, until others are given', async () => {
    const { cluster, directory, hub, controller, start } = await world()
    const bare = { name: undefined, 'gateway-listen': undefined }
    const registered = async (times: number) => {
      await waitFor(() => [...cluster.nodes.values()][0]?.registrations === times, { what: `registration ${times}` })
      // It polls once it has kept what was accepted: each process under an incarnation of its own.
      await waitFor(() => new Set(controller.polls.map((poll) => poll.incarnation)).size === times, { what: `session ${times}` })
      const { name, labels, node_type, capability, gateway_url } = (await pendingNode(cluster)).registration
      return { name, labels, node_type, capability, gateway_url }
    }
    const again = async (flags: Record<string, string>) => tidy(await startTestWorker({ directory, hub, flags: { ...bare, ...flags } }))

    // Refused settings are not remembered.
    const refused = await start({ token: 'wrong', flags: { name: 'wrong', labels: 'wrong=yes' } })
    expect(await refused.ended).toMatchObject({ code: 1 })

    const address = `127.0.0.1:${await freePort()}`
    const given = { name: 'gpu-1', labels: 'a=b', type: 'agent', capability: 'vulkan', 'gateway-listen': address }
    const first = await start({ join: controller.url, flags: given })
    const before = await registered(1)
    expect(before).toEqual({
      name: 'gpu-1',
      labels: { a: 'b' },
      node_type: 'agent',
      capability: 'vulkan',
      gateway_url: `http://${address}`,
    })
    await first.stop()

    const second = await again({})
    expect(await registered(2)).toEqual(before)
    await second.stop()
    const third = await again({ labels: '', type: 'backend' })
    const changed = { ...before, labels: {}, node_type: 'backend' }
    expect(await registered(3)).toEqual(changed)
    await third.stop()
    await again({})
    expect(await registered(4)).toEqual(changed)
  })

  it('W23 that was deleted joins as a new pending node when it has a token', async () => {
    const { cluster, node, remove, beats, events, bus, worker } = await member()
    remove(node.id)
    const fresh = await pendingNode(cluster)
    expect(fresh.id).not.toBe(node.id)
    expect(fresh.approved).toBe(false)
    await waitFor(() => worker.nodeId() === fresh.id, { what: 'the new id' })
    await expect(bus.request(backendList, { node: node.id }, {}, { timeoutMs: 1000 })).rejects.toMatchObject({ code: 'no_responders' })
    expect(beats.every(({ node_id }) => node_id === node.id)).toBe(true)
    expect(events).toEqual([])
  })

  it('W23 that was deleted and has no token ends with the command to run, and forgets its ID', async () => {
    const { controller, node, remove, worker, directory } = await member(null)
    remove(node.id)
    expect(await worker.ended).toEqual({ code: 1, message: expect.stringContaining(`muster worker --join ${controller.url} --token`) })
    expect(JSON.parse(await readFile(join(directory, 'node.json'), 'utf8'))).toMatchObject({ id: null })
  })

  it('that was deleted while it was away ends too', async () => {
    const { node, remove, worker, start } = await member()
    await worker.stop()
    remove(node.id)
    expect(await (await start({ token: null })).ended).toMatchObject({ code: 1, message: expect.stringContaining('--token') })
  })

  it('C11 that was superseded by a copy ends without a goodbye', async () => {
    const { cluster, directory, controller, hub, worker, events, node } = await member()
    const copy = tidy(await makeTempDir('copy')).path
    await Promise.all(['node.key', 'node.json'].map((file) => cp(join(directory, file), join(copy, file))))
    await writeFile(join(copy, 'muster.yaml'), '')
    const twin = tidy(await startTestWorker({ directory: copy, join: controller.url, hub }))
    await waitFor(() => node.registrations === 2, { what: 'the copy to register' })
    expect(await worker.ended).toMatchObject({ code: 1, message: expect.stringContaining('another process') })
    expect(twin.nodeId()).toBe(node.id)
    expect(cluster.nodes.size).toBe(1)
    expect(events).toEqual([])
  })

  it('stops on a command over the bus', async () => {
    const { worker, node, bus, events } = await member()
    bus.publish(nodeStop, { node: node.id }, {})
    expect(await worker.ended).toMatchObject({ code: 0, message: expect.stringContaining('stopped') })
    await waitFor(() => events.some(({ type }) => type === 'leaving'), { what: 'the goodbye' })
  })

  it.each([
    ['overloaded controllers', apiError(503, 'unavailable')],
    ['a rate limit', apiError(429, 'too_many_failures')],
    ['a failing controller', apiError(500, 'internal')],
    ['a proxy that knows no such page', { status: 404, body: '<html>404 page not found</html>' }],
    ['a proxy that wants a password', { status: 401, body: 'who are you' }],
    ['a captive portal', { status: 200, body: '<html>please log in</html>' }],
    ['somebody else’s JSON', { status: 200, body: { ok: true } }],
    ['a redirect', { status: 302, body: '', headers: { location: 'http://127.0.0.1:1/' } }],
    ['an answer without end', { status: 200, body: `"${'x'.repeat(2_000_000)}"` }],
  ])('goes on beating through %s, and is a member still when they are over', async (_, planned) => {
    const { cluster, controller, worker, node, oneMore } = await member()
    controller.intercept = () => planned
    cluster.settings = { ...cluster.settings, heartbeat_interval_ms: 40 }
    cluster.changed()
    const during = controller.requests.length
    await waitFor(() => controller.requests.length >= during + 3, { what: 'three more tries' })
    expect(await oneMore()).toMatchObject({ node_id: node.id })
    controller.intercept = null
    cluster.settings = { ...cluster.settings, heartbeat_interval_ms: 30 }
    const isOver = ({ message }: { message: string }): boolean => message === 'controllers are reachable again'
    await waitFor(() => worker.log.lines.some(isOver), { what: 'an answer to be noticed' })
    expect(worker.nodeId()).toBe(node.id)
    expect(node.registrations).toBe(1)
    await oneMore()
  })

  it('C2 retries forever while a controller is away, and tries the others it knows', async () => {
    const { cluster, controller, oneMore, worker, node, directory, hub, start } = await member()
    const second = tidy(await startFakeController(cluster))
    cluster.settings = { ...cluster.settings, controllers: [controller.url, second.url] }
    cluster.changed()
    await waitFor(async () => (await readFile(join(directory, 'node.json'), 'utf8')).includes(second.url), {
      what: 'the second controller to be known',
    })
    await controller.stop()
    await polled(second, 1)
    await oneMore()
    await worker.stop()

    const again = await start({ token: null, hub })
    expect(await oneMore()).toMatchObject({ node_id: node.id })
    expect(again.nodeId()).toBe(node.id)
    expect(second.polls.length).toBeGreaterThan(1)
  })

  it('that restarts while controllers cannot register it answers them at its old address with its old secret', async () => {
    const { cluster, controller, worker, node, start, oneMore, directory } = await member()
    const before = node.registration.gateway_url
    const ask = async (secret: string): Promise<number> => {
      const replica = ReplicaId.parse('r-1')
      const token = mintGatewayToken({ secret, nodeId: node.id, scope: gatewayScope.replica(replica), controller: 'c-1' })
      const headers = { authorization: `Bearer ${token}` }
      return (await fetch(`${before}${gatewayPaths.replica(replica)}/v1/models`, { headers })).status
    }
    expect(await ask('gateway-secret')).toBe(404)
    await worker.stop()
    // Their database is down.
    controller.intercept = () => apiError(503, 'unavailable')
    await start({ token: null })
    await waitFor(async () => (await fetch(`${before}/healthz`).catch(() => null))?.status === 200, { what: 'the gateway' })
    // The token was accepted: the replica is not known, but the caller is.
    expect(await ask('gateway-secret')).toBe(404)
    expect(await ask('another')).toBe(401)
    expect((await stat(join(directory, 'node.json'))).mode & 0o777).toBe(0o600)
    controller.intercept = null
    await oneMore()
    expect([...cluster.nodes.values()][0]?.registration.gateway_url).toBe(before)
  })

  it('that was deleted keeps no secret of its gateway', async () => {
    const { node, remove, worker, directory } = await member(null)
    const stored = async (): Promise<unknown> => JSON.parse(await readFile(join(directory, 'node.json'), 'utf8'))
    expect(await stored()).toMatchObject({ gateway: { secret: 'gateway-secret' } })
    remove(node.id)
    await worker.ended
    expect(await stored()).toMatchObject({ gateway: null })
  })

  it('that restarts while the controller it joined through is frozen registers at another one', async () => {
    const { cluster, controller, oneMore, worker, node, directory, start } = await member()
    const second = tidy(await startFakeController(cluster))
    cluster.settings = { ...cluster.settings, controllers: [controller.url, second.url] }
    cluster.changed()
    await waitFor(async () => (await readFile(join(directory, 'node.json'), 'utf8')).includes(second.url), {
      what: 'the second controller to be known',
    })
    await worker.stop()
    controller.isFrozen = true
    const begun = performance.now()
    await start({ token: null })
    expect(await oneMore()).toMatchObject({ node_id: node.id })
    // 15 s is the time limit of a registration.
    expect(performance.now() - begun).toBeLessThan(boundMs(8_000))
  })

  it('C2 is alive and not ready while the bus is away, and publishes a heartbeat at once when it is back', async () => {
    const { worker, hub, oneMore } = await member()
    await ready(worker, 200)
    hub.interrupt()
    await ready(worker, 503)
    expect((await fetch(`${gatewayOf(worker)}/healthz`)).status).toBe(200)
    hub.restore()
    await oneMore()
    await ready(worker, 200)
    expect(await (await fetch(`${gatewayOf(worker)}/metrics`)).text()).toContain('muster_worker_bus_reconnects_total 1')
  })
})

describe('the data directory', () => {
  it('has one worker at a time', async () => {
    const { directory, start } = await world()
    await start()
    await expect(openDataDir({ path: directory, role: 'worker' })).rejects.toThrow(`in use by process ${process.pid}`)
  })

  it.each<[string, (directory: string) => Promise<unknown>]>([
    ['removed', (directory) => rm(directory, { recursive: true })],
    ['replaced by an empty one', async (directory) => await mkdir(await rename(directory, `${directory}-old`).then(() => directory))],
  ])('that is %s stops the worker, which says goodbye and why', async (_, change) => {
    const { cluster, start, approve, directory, oneMore, events } = await world()
    const hurried = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 20, signal) }
    const own = join(directory, 'own')
    const worker = await start({ directory: own, clock: hurried })
    await pendingNode(cluster)
    approve()
    await oneMore()
    await change(own)
    expect(await worker.ended).toEqual({ code: 1, message: expect.stringContaining(`the data directory ${own} was removed or replaced`) })
    await waitFor(() => events.some(({ type }) => type === 'leaving'), { what: 'a goodbye' })
  })

  it('holds a key that only its owner can read, and that stays', async () => {
    const { cluster, directory, start } = await world()
    const worker = await start()
    const { registration } = await pendingNode(cluster)
    const key = await readFile(join(directory, 'node.key'), 'utf8')
    expect((await stat(join(directory, 'node.key'))).mode & 0o777).toBe(0o600)
    expect(key).toMatch(/^SU[A-Z2-7]{56}$/)
    await worker.stop()
    await start()
    await waitFor(() => [...cluster.nodes.values()][0]?.registrations === 2, { what: 'the second registration' })
    expect([...cluster.nodes.values()].map((node) => node.registration.public_key)).toEqual([registration.public_key])
  })

  it('with a damaged key is refused, and the key left alone', async () => {
    const { directory, start } = await world()
    await writeFile(join(directory, 'node.key'), 'SUAxxx')
    await writeFile(join(directory, 'muster.yaml'), '')
    await expect(start()).rejects.toThrow(/node\.key is damaged/)
    expect(await readFile(join(directory, 'node.key'), 'utf8')).toBe('SUAxxx')
  })

  it('with a damaged record registers again as the same node: only the key counts', async () => {
    const { cluster, directory, start } = await world()
    await (await start()).stop()
    await writeFile(join(directory, 'node.json'), '{"id": "../..", "jo')
    const worker = await start()
    await waitFor(() => worker.nodeId() !== null, { what: 'an id' })
    expect(cluster.nodes.size).toBe(1)
  })
})

describe('over a real NATS', () => {
  it('C1 reconnects and answers after the server was killed', async () => {
    const nats = tidy(await startNats())
    const { cluster, controller, directory, approve } = await world()
    cluster.bus = { url: nats.url, credentials: null, expires_at: null }
    const bus = await connectNats({ url: nats.url, name: 'test', inboxPrefix: '_INBOX_test', log: silentLog, clock: systemClock })
    cleanup.push(() => bus.close())
    const ear = listen(bus)
    const worker = tidy(await startTestWorker({ directory, join: controller.url, token: 'right' }))
    const { id } = await pendingNode(cluster)
    approve()
    await ear.oneMore()
    expect(await ask(bus, id)).toMatchObject({ backends: [] })

    await nats.kill('SIGKILL')
    await waitFor(() => worker.log.lines.some(({ message }) => message.startsWith('bus connection lost')), {
      what: 'the loss to be noticed',
    })
    await nats.restart()
    await ear.oneMore()
    expect(await waitFor(() => ask(bus, id), { what: 'an answer' })).toMatchObject({ backends: [] })

    await worker.stop()
    await waitFor(() => ear.events.some(({ type }) => type === 'leaving'), { what: 'the goodbye' })
  })
})

const ask = (bus: Bus, node: NodeId) => bus.request(backendList, { node }, {}, { timeoutMs: 2000 })
